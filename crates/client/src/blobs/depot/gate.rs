//! Where a depot meets those of other nodes: connections that it makes and takes.

/// One connection between two depots, on which nobody waits. Errors are sentences.
pub trait DepotLine {
    /// Goes on with its beginning as far as that goes; true: both ends have just proved who they are.
    ///
    /// # Errors
    /// They do not.
    fn open(&mut self, now: u64) -> Result<bool, String>;

    /// Sends messages.
    ///
    /// # Errors
    /// It is broken.
    fn say(&mut self, messages: &[u8]) -> Result<(), String>;

    /// Hands over what was said.
    ///
    /// # Errors
    /// It is broken.
    fn flush(&mut self) -> Result<(), String>;

    /// The next messages that came, in the place of what `chunk` held; false: nothing more is there.
    ///
    /// # Errors
    /// It is broken.
    fn hear(&mut self, chunk: &mut Vec<u8>) -> Result<bool, String>;

    /// Bytes that were said and that the system has not taken; `usize::MAX`: it is not open.
    fn unsent(&self) -> usize;
}

/// Where connections are made and taken.
pub trait Gate {
    /// One of them.
    type Line: DepotLine;

    /// The next connection that somebody made, which has to be open by then.
    fn accept(&mut self, deadline_ns: u64) -> Option<Self::Line>;

    /// Makes a connection, which has to be open by then.
    ///
    /// # Errors
    /// It cannot be made; a sentence.
    fn connect(&mut self, address: &str, deadline_ns: u64) -> Result<Self::Line, String>;

    /// Has the depot's sleep end when there is something to do with a connection, as it is now.
    fn watch(&self, _line: &mut Self::Line) {}
}
