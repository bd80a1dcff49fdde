//! Peers that break the rules: TLS configured by hand, with any key, that accepts any key.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use gristmill_transport::NodeKey;
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    ServerConnection, SignatureScheme, StreamOwned,
};

/// Returns the two halves of a node key, the nodes' private key and the client's public key. It reads them from the text of the
/// key without the crate's own parser.
pub fn halves(key: &NodeKey) -> ([u8; 32], [u8; 32]) {
    let text = key.to_text();
    let characters = text.strip_prefix("gristmill-node-1:").expect("a node key of version 1");
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'-' => 62,
        _ => 63,
    };
    let bits = characters.bytes().flat_map(|letter| {
        let value = value(letter);
        (0..6).rev().map(move |bit| value >> bit & 1)
    });
    let bits: Vec<u8> = bits.collect();
    let bytes: Vec<u8> =
        bits.chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | bit)).collect();
    let half = |from: usize| bytes[from..from + 32].try_into().expect("32 bytes");
    (half(0), half(32))
}

/// Returns the key that a hostile peer shows and signs with.
pub fn key(private: &[u8; 32], shown: Option<&[u8; 32]>) -> Arc<CertifiedKey> {
    let head = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
    let document = [&head[..], private].concat();
    let signing = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(document));
    let signing = signing.expect("any 32 bytes are a key");
    let own = signing.public_key().expect("it has a public half").to_vec();
    let other =
        shown.map(|key| [&b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"[..], key].concat());
    Arc::new(CertifiedKey::new(vec![CertificateDer::from(other.unwrap_or(own))], signing))
}

/// The behaviour of a hostile peer.
#[derive(Debug, Clone)]
pub struct Manners {
    /// The key that it shows; `None` means that it shows none.
    pub key: Option<Arc<CertifiedKey>>,
    /// True if it uses raw public keys instead of certificates.
    pub has_raw_keys: bool,
    /// True if it asks for the other side's key.
    pub asks: bool,
}

impl Manners {
    /// Returns the behaviour that the protocol requires, with this key.
    pub fn good(key: Arc<CertifiedKey>) -> Self {
        Self { key: Some(key), has_raw_keys: true, asks: true }
    }
}

/// A hostile peer that connects.
pub type Caller = StreamOwned<ClientConnection, TcpStream>;
/// A hostile peer that listens.
pub type Host = StreamOwned<ServerConnection, TcpStream>;

/// Connects. It sends its hello at the first write or read.
pub fn call(address: std::net::SocketAddr, manners: Manners) -> Caller {
    let config = ClientConfig::builder_with_provider(provider());
    let config = config.with_protocol_versions(&[&rustls::version::TLS13]).expect("it is built");
    let manners = Arc::new(manners);
    let config = config.dangerous().with_custom_certificate_verifier(manners.clone());
    let config = config.with_client_cert_resolver(manners);
    let name = ServerName::try_from("gristmill.invalid").expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).expect("a configuration");
    StreamOwned::new(tls, TcpStream::connect(address).expect("the node listens"))
}

/// Accepts one connection.
pub fn host(listener: &TcpListener, manners: Manners) -> Host {
    let config = ServerConfig::builder_with_provider(provider());
    let config = config.with_protocol_versions(&[&rustls::version::TLS13]).expect("it is built");
    let manners = Arc::new(manners);
    let config = if manners.asks {
        config.with_client_cert_verifier(manners.clone())
    } else {
        config.with_no_client_auth()
    };
    let tls = ServerConnection::new(Arc::new(config.with_cert_resolver(manners)));
    let (socket, _) = listener.accept().expect("the client connects");
    StreamOwned::new(tls.expect("a configuration"), socket)
}

/// Writes `words`, then reads until the connection ends, and ignores errors.
pub fn exchange(mut stream: impl Read + Write, words: &[u8]) {
    let _ = stream.write_all(words).and_then(|()| stream.flush());
    let _ = stream.read_to_end(&mut Vec::new());
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl ResolvesClientCert for Manners {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.key.clone()
    }

    fn only_raw_public_keys(&self) -> bool {
        self.has_raw_keys
    }

    fn has_certs(&self) -> bool {
        self.has_raw_keys
    }
}

impl ResolvesServerCert for Manners {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.key.clone()
    }

    fn only_raw_public_keys(&self) -> bool {
        self.has_raw_keys
    }
}

impl ServerCertVerifier for Manners {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.asks
    }
}

impl ClientCertVerifier for Manners {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.has_raw_keys
    }
}
