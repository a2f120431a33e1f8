//! Turns lines into requests.

use tollgate_http::ClientIp;

use crate::filter::Filter;
use crate::key::{KeyPart, PathTemplates};
use crate::role::Role;
use crate::zone::Zone;

/// The rules by which lines become requests.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The parts of a key. Default: the address of the client.
    pub key: Vec<KeyPart>,
    /// The way to find the address of the client.
    pub client: ClientIp,
    /// The proxies write `Forwarded` and not `X-Forwarded-For`. `client` has to say the same.
    pub standard_forwarded: bool,
    /// Names for paths in keys.
    pub templates: PathTemplates,
    /// The field that holds the cost; one unit without it.
    pub cost: Option<String>,
    /// Requests that are replayed: those that all of these accept.
    pub filters: Vec<Filter>,
    /// Leaves out requests that began before this time, in microseconds since the epoch.
    pub since: Option<u64>,
    /// Leaves out requests that began at this time or later.
    pub until: Option<u64>,
    /// Fields that have another name than usual: `(Role::Client, "real_ip")`.
    pub fields: Vec<(Role, String)>,
    /// Leaves out requests that were refused: status 429, or marked as limited.
    pub without_limited: bool,
    /// The time zone of stamps that name none.
    pub zone: Zone,
}

impl Default for Reading {
    fn default() -> Self {
        Reading {
            key: vec![KeyPart::Ip],
            client: ClientIp::peer(),
            standard_forwarded: false,
            templates: PathTemplates::default(),
            cost: None,
            filters: Vec::new(),
            since: None,
            until: None,
            fields: Vec::new(),
            without_limited: false,
            zone: Zone::default(),
        }
    }
}

impl Reading {
    /// Sets the field that has the meaning of a role: `client=real_ip`.
    ///
    /// # Errors
    /// When there is no such role.
    ///
    /// ```
    /// let mut reading = tollgate_replay::Reading::default();
    /// assert!(reading.field("client=real_ip").is_ok());
    /// assert!(reading.field("customer=real_ip").is_err());
    /// ```
    pub fn field(&mut self, text: &str) -> Result<(), String> {
        let (role, name) = text.split_once('=').unwrap_or((text, ""));
        let role = Role::named(role)
            .filter(|_| !name.is_empty())
            .ok_or_else(|| format!("field {text:?}: write ROLE=NAME; roles are {}", Role::NAMED))?;
        self.fields.push((role, name.to_owned()));
        Ok(())
    }
}
