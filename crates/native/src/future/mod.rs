//! Futures: the two types, their methods, and the attributes that `concurrent.futures` reads from them.

mod app;
mod app_methods;
mod dict;
mod guarded;
mod kind;
mod layout;
mod ledger;
mod methods;
mod release;
mod standard;

pub use app::{AppCall, new_app_future};
pub use app_methods::{has_app_futures, make_app_future_type};
pub use kind::{is_foreign_future, is_future};
pub use layout::{FutureRef, new_future};
pub use ledger::Ledger;
pub use methods::future_type;
