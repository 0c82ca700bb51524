//! How a layer's rejections look.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::Rejection;

/// What a layer adds to its rejections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Style {
    pub(crate) mismatch: MismatchStatus,
    /// The value of a `Link` header to the documentation.
    pub(crate) described_by: Option<HeaderValue>,
}

impl Style {
    pub(crate) fn apply<B: From<Bytes>>(&self, rejection: &Rejection, response: &mut Response<B>) {
        if *rejection == Rejection::Mismatch {
            *response = rejection.problem().with_status(self.mismatch.code()).response();
        }
        self.describe(response.headers_mut());
    }

    /// Points to the documentation.
    pub(crate) fn describe(&self, headers: &mut HeaderMap) {
        if let Some(link) = &self.described_by {
            headers.insert(header::LINK, link.clone());
        }
    }
}

/// The status of a key that was reused for another request.
///
/// Domain validation also answers 422; a service whose clients look at the status only may choose another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MismatchStatus {
    /// 422, as the specification says.
    #[default]
    UnprocessableContent,
    /// 409.
    Conflict,
    /// 400.
    BadRequest,
}

impl MismatchStatus {
    const fn code(self) -> StatusCode {
        match self {
            Self::UnprocessableContent => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Conflict => StatusCode::CONFLICT,
            Self::BadRequest => StatusCode::BAD_REQUEST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e03_the_status_of_a_mismatch_can_be_chosen() {
        let table = [
            (MismatchStatus::UnprocessableContent, 422),
            (MismatchStatus::Conflict, 409),
            (MismatchStatus::BadRequest, 400),
        ];
        for (mismatch, status) in table {
            let style = Style { mismatch, ..Style::default() };
            let response: Response<Bytes> = Rejection::Mismatch.response(&style);
            let document: serde_json::Value = serde_json::from_slice(response.body()).expect("json");
            assert_eq!(
                (response.status().as_u16(), &document["status"]),
                (status, &serde_json::json!(status))
            );
            let other: Response<Bytes> = Rejection::MissingKey.response(&style);
            assert_eq!(other.status(), 400, "no other cause is touched");
        }
    }
}
