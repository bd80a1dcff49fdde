//! Channel errors for the faults that TLS reports.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use crate::error::{AuthFailure, ChannelError, lost};

/// Returns the error for a fault that occurs before the peer has proved its key.
pub fn of_handshake(peer: &str, error: Error) -> ChannelError {
    match mistrust(&error) {
        Some(mistrust) => ChannelError::Unauthenticated { peer: peer.to_owned(), mistrust },
        None => ChannelError::Garbage { peer: peer.to_owned(), source: Box::new(error) },
    }
}

/// Returns the error for a later fault: bytes were altered on their way here, or the peer reports this of bytes from here. A
/// party that can alter bytes can also cut the connection, so both count as the same loss.
pub fn of_connection(peer: &str, error: Error) -> ChannelError {
    lost(peer)(io::Error::new(io::ErrorKind::InvalidData, error))
}

fn mistrust(error: &Error) -> Option<AuthFailure> {
    Some(match error {
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            AuthFailure::OtherKey
        }
        Error::InvalidCertificate(_) => AuthFailure::NoProof,
        Error::NoCertificatesPresented
        | Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension) => {
            AuthFailure::NoKey
        }
        Error::AlertReceived(alert) if is_refusal(*alert) => AuthFailure::OursRefused,
        _ => return None,
    })
}

/// Returns true for the alerts by which a peer says that it does not accept a key.
fn is_refusal(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::AccessDenied
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate
    )
}
