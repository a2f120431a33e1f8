//! `tollgate completions` and `tollgate man`.

use std::error::Error;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Arguments;
use super::output::say;

#[derive(Args, Debug)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "tollgate", &mut script);
        say(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Args, Debug)]
pub(super) struct Man {
    /// A directory for one page per command, instead of the main page on standard output
    #[arg(long, value_name = "DIR")]
    to: Option<std::path::PathBuf>,
}

impl Man {
    pub(super) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        match &self.to {
            Some(dir) => {
                std::fs::create_dir_all(dir)
                    .map_err(|error| format!("{}: {error}", dir.display()))?;
                clap_mangen::generate_to(Arguments::command(), dir)?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
                say(&String::from_utf8_lossy(&page))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
