//! Futures: the type, its methods, and the views that `concurrent.futures` takes of them.

mod layout;
mod methods;
mod standard;

pub use layout::{FutureRef, is_future, new_future};
pub use methods::future_type;
