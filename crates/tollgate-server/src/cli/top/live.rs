//! The live screen: draws each sample, and obeys the keyboard and signals.

use std::error::Error;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures_util::{StreamExt as _, stream};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::feed::{Failure, Feed};
use super::figures::{Figures, Sort};
use super::page::{Focus, View, screen};
use super::terminal::Terminal;
use super::{Sample, Top};

/// The pause before a lost server is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// Shows the figures until the user quits. The exit code after a signal is 128 and its number.
pub(super) async fn run(top: &Top) -> Result<ExitCode, Box<dyn Error>> {
    // Errors of the command line and of the first connection are printed as those of any command.
    let mut feed = top.feed().await?;
    let mut figures = Figures::new(&feed.next().await?, None)?;
    let mut signals = Signals::new()?;
    let terminal = Terminal::take()?;
    let mut keyboard = EventStream::new();
    let mut view = View::new(top.sort);
    let samples = stream::unfold(Some(feed), |feed| async move {
        let (feed, sample) = next_sample(top, feed).await;
        Some((sample, feed))
    });
    let mut samples = pin!(samples);
    loop {
        let (width, height) = terminal.size();
        terminal.draw(&screen(&figures, &mut view, width, height))?;
        tokio::select! {
            event = keyboard.next() => {
                let Some(event) = event else { return Ok(ExitCode::SUCCESS) };
                if press(&mut view, &event?, height) == Then::Quit {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            number = signals.next() => return Ok(ExitCode::from(128 + number)),
            Some(sample) = samples.next() => match sample {
                Ok(sample) => {
                    view.trouble = None;
                    if !view.is_paused {
                        figures = Figures::new(&sample, Some(&figures))?;
                    }
                }
                Err(failure) if failure.may_pass => {
                    view.trouble = Some(format!("{failure}; trying again"));
                }
                Err(failure) => return Err(failure.into()),
            },
        }
    }
}

/// The next sample, on new connections if the old ones are lost.
async fn next_sample(top: &Top, feed: Option<Feed>) -> (Option<Feed>, Result<Sample, Failure>) {
    let mut feed = match feed {
        Some(feed) => feed,
        None => {
            tokio::time::sleep(PAUSE).await;
            match top.feed().await {
                Ok(feed) => feed,
                Err(failure) => return (None, Err(failure)),
            }
        }
    };
    match feed.next().await {
        Ok(sample) => (Some(feed), Ok(sample)),
        Err(failure) => (None, Err(failure)),
    }
}

/// Signals that end the program.
#[derive(Debug)]
struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The number of the next signal.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.hangup.recv() => 1,
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Continue,
    Quit,
}

/// Does what a key says.
fn press(view: &mut View, event: &Event, height: usize) -> Then {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return Then::Continue;
    };
    let page = isize::try_from(height / 2).unwrap_or(1).max(1);
    match code {
        KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => return Then::Quit,
        KeyCode::Char('q') | KeyCode::Esc => return Then::Quit,
        KeyCode::Char('h') => view.sort = Sort::Hits,
        KeyCode::Char('d') => view.sort = Sort::Denied,
        KeyCode::Char('r') => view.sort = Sort::Rate,
        KeyCode::Char('n') => view.sort = Sort::Name,
        KeyCode::Char(' ') => view.is_paused = !view.is_paused,
        KeyCode::Tab | KeyCode::BackTab => {
            view.focus = match view.focus {
                Focus::Rules => Focus::Keys,
                Focus::Keys => Focus::Rules,
            }
        }
        KeyCode::Up | KeyCode::Char('k') => view.scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => view.scroll(1),
        KeyCode::PageUp => view.scroll(-page),
        KeyCode::PageDown => view.scroll(page),
        KeyCode::Home => view.scroll(isize::MIN),
        KeyCode::End => view.scroll(isize::MAX),
        _ => {}
    }
    Then::Continue
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> Event {
        Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn keys_sort_scroll_pause_and_quit() {
        let mut view = View::new(Sort::Hits);
        for (code, sort) in
            [('d', Sort::Denied), ('r', Sort::Rate), ('n', Sort::Name), ('h', Sort::Hits)]
        {
            assert_eq!(press(&mut view, &key(KeyCode::Char(code)), 24), Then::Continue);
            assert_eq!(view.sort, sort);
        }
        press(&mut view, &key(KeyCode::Down), 24);
        press(&mut view, &key(KeyCode::Tab), 24);
        press(&mut view, &key(KeyCode::PageDown), 24);
        assert_eq!((view.focus, view.first), (Focus::Keys, [1, 12]));
        press(&mut view, &key(KeyCode::Home), 24);
        press(&mut view, &key(KeyCode::Char(' ')), 24);
        assert_eq!((view.is_paused, view.first), (true, [1, 0]));
        let control = |c| Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
        for event in [key(KeyCode::Char('q')), key(KeyCode::Esc), control('c')] {
            assert_eq!(press(&mut view, &event, 24), Then::Quit);
        }
    }
}
