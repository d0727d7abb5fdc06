//! A channel for one value, from a thread to a task.
//!
//! The receiver is a future. It completes with the value, or with [`Canceled`] as soon as the
//! sender is dropped without sending. The sender learns from [`Sender::is_canceled`] that the
//! receiver was dropped, and can skip the work.
//!
//! This is the channel of `futures-channel`, which needs no async runtime.
//!
//! ```
//! use std::pin::pin;
//! use std::task::{Context, Poll, Waker};
//!
//! use sync::oneshot;
//!
//! let (sender, receiver) = oneshot::channel();
//! let mut receiver = pin!(receiver);
//! let mut context = Context::from_waker(Waker::noop());
//! assert_eq!(receiver.as_mut().poll(&mut context), Poll::Pending);
//!
//! sender.send(7).expect("the receiver exists");
//! assert_eq!(receiver.as_mut().poll(&mut context), Poll::Ready(Ok(7)));
//! ```
//!
//! A dropped sender completes the receiver, so that no task waits forever:
//!
//! ```
//! use sync::oneshot;
//!
//! let (sender, mut receiver) = oneshot::channel::<u32>();
//! assert_eq!(receiver.try_recv(), Ok(None));
//! drop(sender);
//! assert_eq!(receiver.try_recv(), Err(oneshot::Canceled));
//! ```

pub use futures_channel::oneshot::{Canceled, Receiver, Sender, channel};
