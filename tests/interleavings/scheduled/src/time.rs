//! `tokio::time` on a clock that stands still until a test lets time pass.
//!
//! Time passes from one deadline to the next, never past one that is waited for; when is up to the schedule. So a timer
//! may fire before or after any step of any task, as on a machine whose tasks may be slow.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    ops::{Add, Sub},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::point;

thread_local! {
    static CLOCK: RefCell<Clock> = RefCell::default();
}

type Follow = Box<dyn Fn(Duration)>;

#[derive(Default)]
struct Clock {
    now: Duration,
    timers: BTreeMap<(Duration, u64), Waker>,
    /// Never reused: a timer of an earlier schedule may be dropped late.
    sleeps: u64,
    /// Who lets time pass, while there is nothing to let it pass to.
    passing: Option<Waker>,
    follow: Option<Follow>,
}

fn clock<T>(step: impl FnOnce(&mut Clock) -> T) -> T {
    CLOCK.with_borrow_mut(step)
}

/// Back to the start, for another schedule. `follow` hears of each span that passes, after it has passed.
pub fn restart(follow: impl Fn(Duration) + 'static) {
    let before = clock(|clock| {
        let sleeps = clock.sleeps;
        std::mem::replace(clock, Clock { sleeps, follow: Some(Box::new(follow)), ..Clock::default() })
    });
    drop(before);
}

/// Lets time pass from deadline to deadline, as soon as somebody waits for one, but not past `end` (since the start).
///
/// Never returns: it is a task like any other, and when it goes on is up to the schedule.
pub async fn pass_until(end: Duration) {
    loop {
        pass(end).await;
    }
}

async fn pass(end: Duration) {
    let (passed, wakers, follow) = std::future::poll_fn(|context| {
        point();
        clock(|clock| {
            let next = clock.timers.keys().next().map(|&(next, _)| next).filter(|&next| next <= end);
            let Some(next) = next else {
                clock.passing = Some(context.waker().clone());
                return Poll::Pending;
            };
            let passed = next.saturating_sub(clock.now);
            clock.now += passed;
            let later = clock.timers.split_off(&(clock.now, u64::MAX));
            let due = std::mem::replace(&mut clock.timers, later);
            Poll::Ready((passed, due, clock.follow.take()))
        })
    })
    .await;
    wakers.into_values().for_each(Waker::wake);
    if let Some(follow) = follow {
        // Not while the clock is borrowed: the one who follows takes locks, where others may run.
        follow(passed);
        clock(|clock| clock.follow = Some(follow));
    }
}

/// A time on the clock that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Self {
        Self(clock(|clock| clock.now))
    }

    pub fn elapsed(self) -> Duration {
        Self::now() - self
    }

    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0 + span)
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0 - span)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

pub fn sleep(span: Duration) -> Sleep {
    sleep_until(Instant::now() + span)
}

pub fn sleep_until(deadline: Instant) -> Sleep {
    let number = clock(|clock| {
        clock.sleeps += 1;
        clock.sleeps
    });
    Sleep { key: (deadline.0, number) }
}

#[derive(Debug)]
#[must_use = "it waits when it is awaited"]
pub struct Sleep {
    key: (Duration, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let passing = clock(|clock| {
            if clock.now >= self.key.0 {
                return Err(());
            }
            clock.timers.insert(self.key, context.waker().clone());
            Ok(clock.passing.take())
        });
        match passing {
            Err(()) => Poll::Ready(()),
            Ok(passing) => {
                passing.into_iter().for_each(Waker::wake);
                Poll::Pending
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        drop(clock(|clock| clock.timers.remove(&self.key)));
    }
}

pub mod error {
    /// The time was over first.
    #[derive(Debug, PartialEq, Eq)]
    pub struct Elapsed;
}

/// # Errors
/// If the time is over first.
pub async fn timeout<F: Future>(span: Duration, work: F) -> Result<F::Output, error::Elapsed> {
    timeout_at(Instant::now() + span, work).await
}

/// As tokio's: the work is asked before the clock.
///
/// # Errors
/// If the time is over first.
pub async fn timeout_at<F: Future>(deadline: Instant, work: F) -> Result<F::Output, error::Elapsed> {
    let (mut work, mut over) = (pin!(work), pin!(sleep_until(deadline)));
    std::future::poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        over.as_mut().poll(context).map(|()| Err(error::Elapsed))
    })
    .await
}
