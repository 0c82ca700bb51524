//! The response body that the layer gives.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use idem_core::BoxError;

/// A response body: bytes from the record, or the inner service's body with what was read of it put back in front.
///
/// A body that broke while it was read gives what came before and then the error, so that a server aborts the
/// connection where the inner body did and no client takes the rest for the whole.
pub struct ResponseBody<C> {
    read: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
    rest: Rest<C>,
}

pub(crate) enum Rest<C> {
    Ended,
    Body(C),
    Broken(BoxError),
}

impl<C> ResponseBody<C> {
    pub(crate) fn untouched(body: C) -> Self {
        Self::of(VecDeque::new(), Rest::Body(body))
    }

    pub(crate) fn of(read: VecDeque<Bytes>, rest: Rest<C>) -> Self {
        Self { read, trailers: None, rest }
    }

    /// A body that ended with trailers.
    pub(crate) fn trailed(read: VecDeque<Bytes>, trailers: HeaderMap, rest: Rest<C>) -> Self {
        Self { read, trailers: Some(trailers), rest }
    }
}

impl<C> From<Bytes> for ResponseBody<C> {
    fn from(bytes: Bytes) -> Self {
        Self::of(VecDeque::from([bytes]), Rest::Ended)
    }
}

impl<C> Body for ResponseBody<C>
where
    C: Body<Data = Bytes> + Unpin,
    C::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        while let Some(chunk) = self.read.pop_front() {
            if !chunk.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
        }
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        match std::mem::replace(&mut self.rest, Rest::Ended) {
            Rest::Ended => Poll::Ready(None),
            Rest::Broken(error) => Poll::Ready(Some(Err(error))),
            Rest::Body(mut body) => {
                let polled = Pin::new(&mut body).poll_frame(cx).map_err(Into::into);
                if !matches!(polled, Poll::Ready(None)) {
                    self.rest = Rest::Body(body);
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let rest_ended = match &self.rest {
            Rest::Ended => true,
            Rest::Body(body) => body.is_end_stream(),
            Rest::Broken(_) => false,
        };
        rest_ended && self.trailers.is_none() && self.read.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        let read: u64 = self.read.iter().map(|chunk| chunk.len() as u64).sum();
        let rest = match &self.rest {
            Rest::Ended => SizeHint::with_exact(0),
            Rest::Body(body) => body.size_hint(),
            Rest::Broken(_) => SizeHint::default(),
        };
        let mut hint = SizeHint::new();
        hint.set_lower(read.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(read)) {
            hint.set_upper(upper);
        }
        hint
    }
}

/// Shows sizes, never contents.
impl<C> fmt::Debug for ResponseBody<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read: usize = self.read.iter().map(Bytes::len).sum();
        let rest = match &self.rest {
            Rest::Ended => "ended",
            Rest::Body(_) => "to come",
            Rest::Broken(_) => "broken",
        };
        f.debug_struct("ResponseBody").field("read_bytes", &read).field("rest", &rest).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    fn read_of(rest: Rest<Full<Bytes>>) -> ResponseBody<Full<Bytes>> {
        ResponseBody::of(["", "12", "", "345"].map(Bytes::from).into(), rest)
    }

    #[test]
    fn sizes_are_those_of_what_is_still_to_come() {
        let full = || Full::from("6789");
        assert_eq!(read_of(Rest::Ended).size_hint().exact(), Some(5));
        assert_eq!(read_of(Rest::Body(full())).size_hint().exact(), Some(9));
        let broken = read_of(Rest::Broken("planned by the test".into()));
        assert_eq!(
            (broken.size_hint().lower(), broken.size_hint().upper()),
            (5, None),
            "no length is promised"
        );
        assert!(!broken.is_end_stream() && !read_of(Rest::Ended).is_end_stream());
        assert!(ResponseBody::<Full<Bytes>>::from(Bytes::new()).is_end_stream());
        let trailed = ResponseBody::trailed(VecDeque::new(), HeaderMap::new(), Rest::Body(Full::from("")));
        assert!(!trailed.is_end_stream(), "the trailers are still to come");
    }

    #[tokio::test]
    async fn empty_chunks_are_not_sent_and_an_end_stays_an_end() {
        let mut body = read_of(Rest::Body(Full::from("6789")));
        for expected in ["12", "345", "6789"] {
            assert_eq!(
                body.frame().await.expect("a frame").expect("whole").into_data().expect("data"),
                expected
            );
        }
        assert!(body.frame().await.is_none());
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn b056_an_error_comes_once_and_after_what_was_read() {
        let mut body = read_of(Rest::Broken("planned by the test".into()));
        for _ in 0..2 {
            assert!(body.frame().await.expect("a frame").is_ok());
        }
        assert!(body.frame().await.expect("a frame").is_err());
        assert!(body.frame().await.is_none());
    }
}
