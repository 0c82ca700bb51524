//! Reading bodies into memory, within bounds.

use std::{collections::VecDeque, error::Error as StdError, future::poll_fn, pin::Pin, time::Duration};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use idem_core::BoxError;
use tokio::time::{Instant, timeout_at};

use crate::{
    Rejection,
    body::{ResponseBody, Rest},
};

/// The whole request body. Trailers are dropped: the handler gets a body that is made of the bytes.
///
/// # Errors
/// [`Rejection::BodyTooLarge`] as soon as it is known to be above `limit` bytes, or a layer further out said so;
/// [`Rejection::IncompleteBody`] if it ended with an error.
pub(crate) async fn read_request<B>(body: B, limit: usize) -> Result<Bytes, Rejection>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(Rejection::BodyTooLarge { limit: Some(limit) });
    }
    match Limited::new(body, limit).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Rejection::BodyTooLarge { limit: Some(limit) }),
        Err(error) if caused_by_limit(&*error) => Err(Rejection::BodyTooLarge { limit: None }),
        Err(_) => Err(Rejection::IncompleteBody),
    }
}

fn caused_by_limit(error: &(dyn StdError + 'static)) -> bool {
    error.is::<LengthLimitError>() || error.source().is_some_and(caused_by_limit)
}

/// What became of a response body that was to be read into memory.
pub(crate) enum Buffered<C> {
    /// All of it.
    Whole(Bytes),
    /// It cannot be kept: it is over the limit, slow, broken, or ends with trailers. What was read is in front.
    Partial(ResponseBody<C>),
}

/// Reads a response body of at most `limit` bytes, for at most `within`.
pub(crate) async fn buffer_response<C>(mut body: C, limit: usize, within: Duration) -> Buffered<C>
where
    C: Body<Data = Bytes> + Unpin,
    C::Error: Into<BoxError>,
{
    if body.size_hint().lower() > limit as u64 {
        return Buffered::Partial(ResponseBody::untouched(body));
    }
    let deadline = Instant::now() + within;
    let (mut read, mut size) = (VecDeque::new(), 0_usize);
    loop {
        let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let data = match timeout_at(deadline, frame).await {
            Err(_too_slow) => return Buffered::Partial(ResponseBody::of(read, Rest::Body(body))),
            Ok(None) => return Buffered::Whole(joined(read, size)),
            Ok(Some(Err(error))) => {
                return Buffered::Partial(ResponseBody::of(read, Rest::Broken(error.into())));
            }
            Ok(Some(Ok(frame))) => frame.into_data(),
        };
        match data {
            // A body that is always ready, with nothing, would be looked at for ever and its end in time never.
            Ok(data) if data.is_empty() => {
                tokio::task::yield_now().await;
                if Instant::now() >= deadline {
                    return Buffered::Partial(ResponseBody::of(read, Rest::Body(body)));
                }
            }
            Ok(data) => {
                size = size.saturating_add(data.len());
                read.push_back(data);
                if size > limit {
                    return Buffered::Partial(ResponseBody::of(read, Rest::Body(body)));
                }
            }
            Err(frame) => {
                // Trailers cannot be stored, and an answer without its trailers is another answer.
                if let Ok(trailers) = frame.into_trailers() {
                    return Buffered::Partial(ResponseBody::trailed(read, trailers, Rest::Body(body)));
                }
            }
        }
    }
}

fn joined(mut read: VecDeque<Bytes>, size: usize) -> Bytes {
    match read.pop_front() {
        None => Bytes::new(),
        Some(only) if read.is_empty() => only,
        Some(first) => {
            let mut whole = BytesMut::with_capacity(size);
            whole.extend_from_slice(&first);
            for chunk in &read {
                whole.extend_from_slice(chunk);
            }
            whole.freeze()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        task::{Context, Poll},
    };

    use http_body::Frame;

    use super::*;

    /// Always ready, with nothing.
    struct Empty;

    impl Body for Empty {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::new()))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn b058_a_body_of_nothing_without_end_is_not_waited_for_either() {
        let within = Duration::from_secs(30);
        let (buffered, ()) = tokio::join!(buffer_response(Empty, 10, within), tokio::time::advance(within));
        let Buffered::Partial(body) = buffered else { panic!("it has no end") };
        assert!(body.size_hint().lower() == 0 && !body.is_end_stream());
    }
}
