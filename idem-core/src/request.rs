//! What was asked for, kept with the claim, so that somebody else than the client can have it finished.

use std::fmt;

use bytes::Bytes;

use crate::Invalid;

/// A request as its route stores it: enough to carry it out without the client.
///
/// Stored with the claim that begins an operation and kept over all its owners, so that each of them works on the very same
/// bytes. It goes when the operation is completed; with a release it stays, since a retry resumes the operation.
///
/// It is stored as it is given, like the answer: leave out credentials, and what a client may not find again in a backup.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredRequest {
    route: String,
    data: Bytes,
}

impl StoredRequest {
    /// The longest route, in bytes.
    pub const MAX_ROUTE: usize = 255;
    /// The most data, in bytes: a list of stuck records is read with the requests in it.
    pub const MAX_DATA: usize = 1 << 18;

    /// A request of a route, which is the name that a [`Completer`](crate::Completer) finds its handler by.
    ///
    /// # Errors
    /// [`Invalid`] if the route is empty, longer than [`Self::MAX_ROUTE`] bytes or with a NUL, or the data larger than
    /// [`Self::MAX_DATA`] bytes.
    pub fn new(route: impl Into<String>, data: impl Into<Bytes>) -> Result<Self, Invalid> {
        let (route, data) = (route.into(), data.into());
        check_route(&route)?;
        if data.len() > Self::MAX_DATA {
            return Err(Invalid::new("request data", "at most 262144 bytes").seen(data.len()));
        }
        Ok(Self { route, data })
    }

    /// Whose request it is: the name of a handler.
    pub fn route(&self) -> &str {
        &self.route
    }

    /// What the handler needs, in an encoding of the route's own.
    pub fn data(&self) -> &Bytes {
        &self.data
    }
}

/// Refuses a name that no request could carry.
pub(crate) fn check_route(route: &str) -> Result<(), Invalid> {
    if route.is_empty() || route.len() > StoredRequest::MAX_ROUTE || route.contains('\0') {
        return Err(Invalid::new("route", "1 to 255 bytes of text without NUL").seen(route.len()));
    }
    Ok(())
}

/// Shows the route and the size, never the data.
impl fmt::Debug for StoredRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRequest")
            .field("route", &self.route)
            .field("data_bytes", &self.data.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t19_a_request_is_bounded_and_its_data_is_never_shown() {
        let most = vec![0; StoredRequest::MAX_DATA];
        let longest = "r".repeat(StoredRequest::MAX_ROUTE);
        assert!(StoredRequest::new(longest.clone(), most.clone()).is_ok());
        for (route, data, field, seen) in [
            ("", vec![], "route", "0"),
            (&*format!("{longest}r"), vec![], "route", "256"),
            ("a\0b", vec![], "route", "3"),
            ("charges", [most, vec![0]].concat(), "request data", "262145"),
        ] {
            let invalid = StoredRequest::new(route, data).expect_err("out of bounds");
            assert_eq!(invalid.field(), field);
            assert!(invalid.to_string().contains(seen), "{invalid}");
        }
        let request = StoredRequest::new("charges", "4242").expect("within bounds");
        assert_eq!(format!("{request:?}"), "StoredRequest { route: \"charges\", data_bytes: 4 }");
    }
}
