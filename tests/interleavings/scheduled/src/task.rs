//! `tokio::task`: a task of tokio's is one of shuttle's.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

pub use future::JoinError;
use shuttle::future;

/// Starts a task; dropping its handle leaves it running.
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    JoinHandle(future::spawn(work))
}

#[derive(Debug)]
pub struct JoinHandle<T>(future::JoinHandle<T>);

impl<T> JoinHandle<T> {
    /// Drops the task's work at its next await.
    pub fn abort(&self) {
        self.0.abort();
    }

    pub fn is_finished(&self) -> bool {
        crate::point();
        self.0.is_finished()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        crate::point();
        Pin::new(&mut self.0).poll(context)
    }
}

/// Lets others run, and can be dropped meanwhile. Unlike tokio's, it does not ask the scheduler to prefer them.
pub async fn yield_now() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
