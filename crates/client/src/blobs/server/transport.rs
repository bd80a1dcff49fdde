//! Transport between the blob servers of nodes: connections that a server makes and accepts.

/// Connection between two blob servers, which never blocks. Errors are messages in words.
pub trait BlobConnection {
    /// Continues the handshake. Returns true if both ends have proved their identity in this call.
    ///
    /// # Errors
    /// An end cannot prove its identity, or the connection is broken.
    fn open(&mut self, now: u64) -> Result<bool, String>;

    /// Sends messages.
    ///
    /// # Errors
    /// The connection is broken.
    fn say(&mut self, messages: &[u8]) -> Result<(), String>;

    /// Flushes the messages that were sent.
    ///
    /// # Errors
    /// The connection is broken.
    fn flush(&mut self) -> Result<(), String>;

    /// Replaces the contents of `chunk` by the next messages that came. Returns false if no more are there.
    ///
    /// # Errors
    /// The connection is broken.
    fn hear(&mut self, chunk: &mut Vec<u8>) -> Result<bool, String>;

    /// Returns the number of bytes that were sent but not taken by the system; `usize::MAX` if the connection is not open.
    fn unsent(&self) -> usize;
}

/// Transport that makes and accepts connections.
pub trait BlobTransport {
    /// Type of its connections.
    type Connection: BlobConnection;

    /// Accepts the next connection from another node, which has to be open by `deadline_ns`.
    fn accept(&mut self, deadline_ns: u64) -> Option<Self::Connection>;

    /// Makes a connection, which has to be open by `deadline_ns`.
    ///
    /// # Errors
    /// A message: the connection cannot be made.
    fn connect(&mut self, address: &str, deadline_ns: u64) -> Result<Self::Connection, String>;

    /// Ends the blob server's sleep when a connection, in its current state, has something to do. By default does nothing.
    fn watch(&self, _connection: &mut Self::Connection) {}
}
