//! The terminal while `tollgate top` has it. However the program ends, the terminal is as before.

use std::io::{self, Write as _};
use std::sync::Once;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};

use super::page::{Line, Style};

/// A terminal in raw mode that shows another screen. Dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct Terminal(());

impl Terminal {
    pub(super) fn take() -> io::Result<Terminal> {
        restore_before_panic_messages();
        enable_raw_mode()?;
        let terminal = Terminal(());
        execute!(io::stdout(), EnterAlternateScreen, Hide, DisableLineWrap)?;
        Ok(terminal)
    }

    /// The columns and the lines. A terminal that knows no size has 80 and 24.
    pub(super) fn size(&self) -> (usize, usize) {
        match size() {
            Ok((width, height)) if width > 0 && height > 0 => (width.into(), height.into()),
            _ => (80, 24),
        }
    }

    pub(super) fn draw(&self, screen: &[Line]) -> io::Result<()> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        queue!(out, BeginSynchronizedUpdate)?;
        for (row, line) in (0..).zip(screen) {
            let style = match line.style {
                Style::Plain => Attribute::Reset,
                Style::Bold => Attribute::Bold,
                Style::Dim => Attribute::Dim,
                Style::Reverse => Attribute::Reverse,
            };
            queue!(
                out,
                MoveTo(0, row),
                SetAttribute(style),
                Print(&line.text),
                SetAttribute(Attribute::Reset),
                Clear(ClearType::UntilNewLine)
            )?;
        }
        queue!(out, EndSynchronizedUpdate)?;
        out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Errors are ignored: the terminal may be gone.
fn restore() {
    let _ = execute!(io::stdout(), EnableLineWrap, Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

/// A message on the other screen would disappear with it.
fn restore_before_panic_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let message = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            message(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs itself again on a terminal of its own, where it panics.
    #[test]
    fn a_panic_restores_the_terminal_before_its_message() {
        const INSIDE: &str = "TOLLGATE_TEST_PANICS_ON_A_TERMINAL";
        if std::env::var_os(INSIDE).is_some() {
            let _terminal = Terminal::take().unwrap();
            panic!("on purpose");
        }
        let own = std::env::current_exe().unwrap();
        let test = "cli::top::terminal::tests::a_panic_restores_the_terminal_before_its_message";
        let inner = format!("{} --exact {test} --nocapture; stty -a", own.display());
        let output = Command::new("script")
            .args(["--quiet", "--command", &inner, "/dev/null"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let (enter, leave) = (text.find("\u{1b}[?1049h"), text.find("\u{1b}[?1049l"));
        let message = text.find("on purpose");
        assert!(enter.is_some() && enter < leave && leave < message, "{text}");
        assert!(text.contains("\u{1b}[?25h") && text.contains("\u{1b}[?7h"), "{text}");
        // `stty` prints these words for a terminal that is not in raw mode.
        assert!(text.contains(" icanon") && text.contains(" echo "), "{text}");
    }
}
