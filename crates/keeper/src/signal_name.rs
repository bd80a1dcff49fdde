//! The names of signals, as `kill -l` prints them.

use std::borrow::Cow;

/// Returns the name of a signal. A number that the system does not name is shown as `SIG` and the number.
#[must_use]
pub fn signal_name(signal: i32) -> Cow<'static, str> {
    match signal {
        libc::SIGHUP => "SIGHUP".into(),
        libc::SIGINT => "SIGINT".into(),
        libc::SIGQUIT => "SIGQUIT".into(),
        libc::SIGILL => "SIGILL".into(),
        libc::SIGTRAP => "SIGTRAP".into(),
        libc::SIGABRT => "SIGABRT".into(),
        libc::SIGBUS => "SIGBUS".into(),
        libc::SIGFPE => "SIGFPE".into(),
        libc::SIGKILL => "SIGKILL".into(),
        libc::SIGUSR1 => "SIGUSR1".into(),
        libc::SIGSEGV => "SIGSEGV".into(),
        libc::SIGUSR2 => "SIGUSR2".into(),
        libc::SIGPIPE => "SIGPIPE".into(),
        libc::SIGALRM => "SIGALRM".into(),
        libc::SIGTERM => "SIGTERM".into(),
        libc::SIGSTKFLT => "SIGSTKFLT".into(),
        libc::SIGCHLD => "SIGCHLD".into(),
        libc::SIGCONT => "SIGCONT".into(),
        libc::SIGSTOP => "SIGSTOP".into(),
        libc::SIGTSTP => "SIGTSTP".into(),
        libc::SIGTTIN => "SIGTTIN".into(),
        libc::SIGTTOU => "SIGTTOU".into(),
        libc::SIGURG => "SIGURG".into(),
        libc::SIGXCPU => "SIGXCPU".into(),
        libc::SIGXFSZ => "SIGXFSZ".into(),
        libc::SIGVTALRM => "SIGVTALRM".into(),
        libc::SIGPROF => "SIGPROF".into(),
        libc::SIGWINCH => "SIGWINCH".into(),
        libc::SIGIO => "SIGIO".into(),
        libc::SIGPWR => "SIGPWR".into(),
        libc::SIGSYS => "SIGSYS".into(),
        other => real_time_name(other),
    }
}

/// Returns the name of a real-time signal, counted from the nearer end of their range.
fn real_time_name(signal: i32) -> Cow<'static, str> {
    let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
    match (signal - first, last - signal) {
        (0, _) => "SIGRTMIN".into(),
        (_, 0) => "SIGRTMAX".into(),
        (after, before) if after < 0 || before < 0 => format!("SIG{signal}").into(),
        (after, before) if after <= before => format!("SIGRTMIN+{after}").into(),
        (_, before) => format!("SIGRTMAX-{before}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_the_name_that_kill_prints() {
        let first = libc::SIGRTMIN();
        for (signal, name) in [
            (libc::SIGUSR1, "SIGUSR1"),
            (first, "SIGRTMIN"),
            (first + 3, "SIGRTMIN+3"),
            (libc::SIGRTMAX() - 1, "SIGRTMAX-1"),
            (libc::SIGRTMAX(), "SIGRTMAX"),
            (first - 1, "SIG33"),
            (0, "SIG0"),
            (127, "SIG127"),
        ] {
            assert_eq!(signal_name(signal), name);
        }
        assert!((1..first - 2).all(|signal| !signal_name(signal).ends_with(char::is_numeric)
            || [libc::SIGUSR1, libc::SIGUSR2].contains(&signal)));
    }
}
