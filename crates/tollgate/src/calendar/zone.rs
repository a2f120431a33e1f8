//! The name of a time zone, checked once.

use std::fmt;

/// A known time zone. Its number is that of this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Zone(u16);

/// The message for a zone that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownZone(pub(crate) Box<str>);

impl Zone {
    pub(crate) const UTC: Zone = Zone(u16::MAX);

    /// Returns the zone of this name, in any case.
    pub(crate) fn named(name: &str) -> Result<Zone, UnknownZone> {
        if name.eq_ignore_ascii_case(UTC) {
            return Ok(Zone::UTC);
        }
        #[cfg(feature = "calendar")]
        return super::zones::number(name).map(Zone).map_err(|similar| unknown(name, &similar));
        #[cfg(not(feature = "calendar"))]
        return Err(UnknownZone("must be UTC: this build has no rules of time zones".into()));
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Zone::UTC => UTC,
            #[cfg(feature = "calendar")]
            Zone(number) => super::zones::name(number),
            #[cfg(not(feature = "calendar"))]
            Zone(_) => UTC,
        }
    }

    pub(crate) const fn number(self) -> u16 {
        self.0
    }
}

const UTC: &str = "UTC";

#[cfg(feature = "calendar")]
fn unknown(name: &str, similar: &[&str]) -> UnknownZone {
    let shown: String = name.chars().take(60).collect();
    let advice = match similar {
        [] => "; write UTC or a name of the IANA time zone database, such as Europe/Berlin".into(),
        names => format!("; did you mean {}?", names.join(" or ")),
    };
    UnknownZone(format!("time zone {shown:?}: not known{advice}").into())
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
