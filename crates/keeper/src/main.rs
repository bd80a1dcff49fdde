//! The keeper process: all of it is in the library, so that the tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    gristmill_keeper::serve()
}
