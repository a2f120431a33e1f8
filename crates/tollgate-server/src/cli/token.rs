//! `tollgate token`.

use std::error::Error;
use std::io::Read;
use std::process::ExitCode;

use clap::Args;

use super::output::say;
use crate::auth::{self, Hash, TokenScope};

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

    /// A token for the admin port: read for figures, operate also to change the counts of keys
    #[arg(long, value_name = "SCOPE", conflicts_with = "hash")]
    scope: Option<TokenScope>,

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
            let lines = match self.scope {
                None => format!("[auth.tokens]\n  {name:?} = \"{hash}\""),
                Some(scope) => format!(
                    "[auth.admin_tokens]\n  {name:?} = {{ hash = \"{hash}\", scope = \"{}\" }}",
                    scope.name()
                ),
            };
            say(&format!(
                "token for {name}, shown only now:\n  {token}\n\n\
                 for the configuration of the server (--scope makes one for the admin port):\n  {lines}\n"
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
