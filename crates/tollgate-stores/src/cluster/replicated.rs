//! Opens `replicated+` URLs.

use tollgate::Error;
use tollgate::shared::AnyStore;
use tollgate_cluster::bus;
use tollgate_cluster::replicated::{OnMissing, Replicated};

use crate::Opening;
use crate::settings::cut;

/// Joins the fleet on the bus of that URL.
pub(crate) async fn open(opening: &Opening, url: &str) -> Result<AnyStore, Error> {
    let (url, settings) = cut(url, "replica.");
    let mut replica = Replicated::builder(bus::open(&url)?);
    if let Some(name) = opening.node_name() {
        replica = replica.name(name);
    }
    for setting in settings {
        replica = match setting.name {
            "replica.nodes" => replica.nodes(setting.whole()?),
            "replica.flush" => replica.flush(setting.span()?),
            "replica.heartbeat" => replica.heartbeat(setting.span()?),
            "replica.memory" => replica.memory(setting.span()?),
            "replica.name" => replica.name(setting.text()?),
            "replica.peak" => replica.peak(setting.whole()?),
            "replica.max_keys" => {
                replica.max_keys(usize::try_from(setting.whole::<u64>()?).unwrap_or(usize::MAX))
            }
            "replica.max_limits" => {
                replica.max_limits(usize::try_from(setting.whole::<u64>()?).unwrap_or(usize::MAX))
            }
            "replica.missing" => replica.on_missing(setting.one_of(&[
                ("go-on", OnMissing::GoOn),
                ("share", OnMissing::Share),
                ("closed", OnMissing::Closed),
            ])?),
            _ => {
                let known = "replica.nodes, replica.flush, replica.heartbeat, replica.memory, replica.missing, \
                     replica.name, replica.peak, replica.max_keys and replica.max_limits";
                return Err(setting.unknown(known));
            }
        };
    }
    Ok(AnyStore::new(replica.start().await?))
}
