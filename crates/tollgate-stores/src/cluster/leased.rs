//! Opens `leased+` URLs.

use tollgate::Error;
use tollgate::shared::AnyStore;
use tollgate_cluster::Leased;

use crate::Opening;
use crate::settings::cut;

/// Leases from the store of that URL.
pub(crate) async fn open(opening: Opening, url: &str) -> Result<AnyStore, Error> {
    let (url, settings) = cut(url, "lease.");
    let mut leased = Leased::builder(opening.at(url).open_one().await?);
    for setting in settings {
        leased = match setting.name {
            "lease.nodes" => leased.nodes(setting.whole()?),
            "lease.longest" => leased.longest(setting.span()?),
            "lease.skew" => leased.skew(setting.span()?),
            "lease.max_keys" => {
                leased.max_keys(usize::try_from(setting.whole::<u64>()?).unwrap_or(usize::MAX))
            }
            _ => {
                return Err(
                    setting.unknown("lease.nodes, lease.longest, lease.skew and lease.max_keys")
                );
            }
        };
    }
    Ok(AnyStore::new(leased.build()))
}
