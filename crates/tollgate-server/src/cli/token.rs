//! `tollgate token`.

use std::error::Error;
use std::io::Read;
use std::process::ExitCode;

use clap::Args;

use super::output::say;
use crate::auth::{self, Hash};

/// The longest token that is read, in bytes.
const LONGEST: u64 = 4096;

#[derive(Args, Debug)]
pub(super) struct Token {
    /// The name of the owner in the configuration
    #[arg(default_value = "client")]
    name: String,

    /// Hash an existing token, read from standard input
    #[arg(long)]
    hash: bool,

    /// Print JSON: an object with the token and its hash
    #[arg(long)]
    json: bool,
}

impl Token {
    pub(super) fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        if self.hash {
            let mut token = String::new();
            std::io::stdin().take(LONGEST).read_to_string(&mut token)?;
            let token = token.trim();
            if token.is_empty() {
                return Err("no token on standard input".into());
            }
            say(&format!("{}\n", Hash::from_token(token.as_bytes())))?;
            return Ok(ExitCode::SUCCESS);
        }
        let token = auth::Token::new()?;
        let (name, hash) = (&self.name, token.hash());
        if self.json {
            let object = serde_json::json!({ "name": name, "token": token.reveal(), "hash": hash.to_string() });
            say(&format!("{object}\n"))?;
        } else {
            let token = token.reveal();
            say(&format!(
                "token for {name}, shown only now:\n  {token}\n\n\
                 for the configuration of the server ([auth.admin_tokens] for the admin port):\n  \
                 [auth.tokens]\n  {name:?} = \"{hash}\"\n"
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
