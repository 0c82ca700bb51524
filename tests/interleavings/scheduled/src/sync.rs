//! `tokio::sync`: tokio's own channels and locks, each step preceded by a scheduling point.

use std::sync::Arc;

use tokio::sync as tokio_sync;
pub use tokio_sync::{AcquireError, MutexGuard, OwnedSemaphorePermit};

use crate::point;

#[derive(Debug)]
pub struct Mutex<T>(tokio_sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(tokio_sync::Mutex::new(value))
    }

    pub async fn lock(&self) -> MutexGuard<'_, T> {
        point();
        self.0.lock().await
    }
}

#[derive(Debug)]
pub struct Semaphore(Arc<tokio_sync::Semaphore>);

impl Semaphore {
    pub const MAX_PERMITS: usize = tokio_sync::Semaphore::MAX_PERMITS;

    pub fn new(permits: usize) -> Self {
        Self(Arc::new(tokio_sync::Semaphore::new(permits)))
    }

    /// # Errors
    /// Once it is closed.
    pub async fn acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        point();
        Arc::clone(&self.0).acquire_owned().await
    }

    pub fn close(&self) {
        point();
        self.0.close();
    }
}

pub mod oneshot {
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };

    use tokio::sync::oneshot as tokio_oneshot;
    pub use tokio_oneshot::error;

    use crate::point;

    pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = tokio_oneshot::channel();
        (Sender(sender), Receiver(receiver))
    }

    #[derive(Debug)]
    pub struct Sender<T>(tokio_oneshot::Sender<T>);

    impl<T> Sender<T> {
        /// # Errors
        /// The value, if nobody waits for it.
        pub fn send(self, value: T) -> Result<(), T> {
            point();
            self.0.send(value)
        }

        pub fn is_closed(&self) -> bool {
            point();
            self.0.is_closed()
        }
    }

    #[derive(Debug)]
    pub struct Receiver<T>(tokio_oneshot::Receiver<T>);

    impl<T> Future for Receiver<T> {
        type Output = Result<T, error::RecvError>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            point();
            Pin::new(&mut self.0).poll(context)
        }
    }
}

pub mod watch {
    use tokio::sync::watch as tokio_watch;
    pub use tokio_watch::{Ref, error};

    use crate::point;

    #[derive(Debug)]
    pub struct Sender<T>(tokio_watch::Sender<T>);

    impl<T> Sender<T> {
        pub fn new(value: T) -> Self {
            Self(tokio_watch::Sender::new(value))
        }

        pub fn borrow(&self) -> Ref<'_, T> {
            point();
            self.0.borrow()
        }

        pub fn subscribe(&self) -> Receiver<T> {
            point();
            Receiver(self.0.subscribe())
        }

        pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
            point();
            self.0.send_modify(modify);
        }

        pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
            point();
            self.0.send_if_modified(modify)
        }

        pub fn send_replace(&self, value: T) -> T {
            point();
            self.0.send_replace(value)
        }
    }

    #[derive(Debug)]
    pub struct Receiver<T>(tokio_watch::Receiver<T>);

    impl<T> Receiver<T> {
        /// # Errors
        /// Once the sender is gone.
        pub async fn changed(&mut self) -> Result<(), error::RecvError> {
            point();
            self.0.changed().await
        }

        /// # Errors
        /// Once the sender is gone.
        pub async fn wait_for(
            &mut self,
            seen: impl FnMut(&T) -> bool,
        ) -> Result<Ref<'_, T>, error::RecvError> {
            point();
            self.0.wait_for(seen).await
        }
    }
}
