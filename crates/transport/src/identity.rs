//! The identity of this process and the peers that it accepts, as one TLS configuration for each role in TCP.
//!
//! TLS 1.3 with raw public keys (RFC 7250) and nothing else: one suite, one group, one kind of signature, no resumption, no
//! tickets, no early data. Both ends come from one installation, so there is nothing to negotiate.
//! The listening side has the server's role in TLS. The keys depend only on which side is the client of the fleet.

mod pinned;

use std::fmt;
use std::sync::Arc;

use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use crate::keys::{ClientKey, KeyPair, NodeKey, public_document, sibling, signing_key};
use pinned::Pinned;

/// The key that this process proves itself with, and the key that it expects of its peers. Cheap to clone.
#[derive(Clone)]
pub struct Identity {
    pub(crate) connecting: Arc<ClientConfig>,
    pub(crate) listening: Arc<ServerConfig>,
    role: &'static str,
}

impl Identity {
    /// Makes the identity of a fleet's client, which accepts nodes of that fleet.
    #[must_use]
    pub fn of_client(key: &ClientKey) -> Self {
        Self::new(&key.0, "client")
    }

    /// Makes the identity of a node, which accepts the client of its fleet.
    #[must_use]
    pub fn of_node(key: &NodeKey) -> Self {
        Self::new(&key.0, "node")
    }

    /// Makes the identity of a node towards the other nodes of its fleet, which all have the same key.
    #[must_use]
    pub fn of_sibling(key: &NodeKey) -> Self {
        Self::new(&sibling(&key.0), "sibling")
    }

    fn new(pair: &KeyPair, role: &'static str) -> Self {
        let provider = Arc::new(provider());
        let signing = signing_key(&pair.own);
        let own = signing.public_key().expect("a private key of Ed25519 knows its public one");
        // The library carries a raw public key in the place of a certificate.
        let shown = CertificateDer::from(own.to_vec());
        let shown = Arc::new(CertifiedKey::new(vec![shown], signing));
        let pinned = Arc::new(Pinned::new(public_document(&pair.other), &provider));
        let connecting = connecting(&provider, Arc::clone(&shown), Arc::clone(&pinned));
        let listening = listening(&provider, shown, pinned);
        Self { connecting: Arc::new(connecting), listening: Arc::new(listening), role }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Identity({})", self.role)
    }
}

/// Returns the provider with AES-128-GCM, for which every server processor has instructions, and X25519.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![ring::kx_group::X25519],
        ..ring::default_provider()
    }
}

fn connecting(
    provider: &Arc<CryptoProvider>,
    shown: Arc<CertifiedKey>,
    pinned: Arc<Pinned>,
) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider));
    let builder = builder.with_protocol_versions(&[&TLS13]).expect("a suite of TLS 1.3 is there");
    let builder = builder.dangerous().with_custom_certificate_verifier(pinned);
    let mut config =
        builder.with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(shown)));
    config.resumption = Resumption::disabled();
    // The connection has no host name to state: a peer is identified by its key.
    config.enable_sni = false;
    config
}

fn listening(
    provider: &Arc<CryptoProvider>,
    shown: Arc<CertifiedKey>,
    pinned: Arc<Pinned>,
) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider));
    let builder = builder.with_protocol_versions(&[&TLS13]).expect("a suite of TLS 1.3 is there");
    let builder = builder.with_client_cert_verifier(pinned);
    let mut config =
        builder.with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(shown)));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}
