//! The terminal.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcgetwinsize,
    tcsetattr,
};

/// A stream that may be a terminal.
pub trait Terminal: IsTerminal {
    /// Returns the number of columns and rows, if the terminal reports them.
    fn size(&self) -> Option<(u16, u16)>;
}

impl<S: IsTerminal + AsFd> Terminal for S {
    fn size(&self) -> Option<(u16, u16)> {
        let size = tcgetwinsize(self).ok()?;
        (size.ws_col > 0).then_some((size.ws_col, size.ws_row))
    }
}

/// The keys of the controlling terminal, each read when it is pressed and not echoed. Ctrl-C
/// remains a signal.
#[derive(Debug)]
pub struct Keyboard {
    terminal: File,
    before: Termios,
}

impl Keyboard {
    /// Takes the keys; fails if there is no terminal, or if this process is in its background.
    pub fn take() -> io::Result<Self> {
        let terminal = File::open("/dev/tty")?;
        if tcgetpgrp(&terminal)? != getpgrp() {
            return Err(io::Error::other("the process is in the background"));
        }
        let before = tcgetattr(&terminal)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Zero disables a key: a program that is stopped or killed would leave its screen.
        modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
        modes.special_codes[SpecialCodeIndex::VQUIT] = 0;
        modes.special_codes[SpecialCodeIndex::VMIN] = 0;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Now, &modes)?;
        Ok(Self { terminal, before })
    }

    /// Returns the keys pressed, after at most `timeout` if there are none.
    pub fn wait(&self, timeout: Duration) -> io::Result<Vec<u8>> {
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        let mut waited = [PollFd::new(&self.terminal, PollFlags::IN)];
        if poll(&mut waited, Some(&timeout))? == 0 {
            return Ok(Vec::new());
        }
        let mut keys = [0; 64];
        match (&self.terminal).read(&mut keys)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => Ok(keys[..count].to_vec()),
        }
    }

    /// Restores the terminal.
    pub fn give_back(&self) {
        // An error means that the terminal is gone.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
