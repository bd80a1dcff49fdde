//! What a fault that TLS reports says about the peer.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use crate::error::{ChannelError, Mistrust, lost};

/// A fault before the peer has proved its key.
pub fn of_handshake(peer: &str, error: Error) -> ChannelError {
    match mistrust(&error) {
        Some(mistrust) => ChannelError::Unauthenticated { peer: peer.to_owned(), mistrust },
        None => ChannelError::Garbage { peer: peer.to_owned(), source: Box::new(error) },
    }
}

/// A fault afterwards: bytes that the peer did not send so, or its word that ours did not arrive so. Whoever can alter
/// bytes on the way can also cut the connection, so that both are the same loss.
pub fn of_connection(peer: &str, error: Error) -> ChannelError {
    lost(peer)(io::Error::new(io::ErrorKind::InvalidData, error))
}

fn mistrust(error: &Error) -> Option<Mistrust> {
    Some(match error {
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            Mistrust::OtherKey
        }
        Error::InvalidCertificate(_) => Mistrust::NoProof,
        Error::NoCertificatesPresented
        | Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension) => {
            Mistrust::NoKey
        }
        Error::AlertReceived(alert) if is_refusal(*alert) => Mistrust::OursRefused,
        _ => return None,
    })
}

/// The alerts by which a peer says that it does not accept a key.
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
