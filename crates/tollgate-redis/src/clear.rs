//! Deletes many keys with `SCAN` and `UNLINK`, slice by slice, so that other commands do not wait
//! long.

use std::sync::Arc;

use redis::Value;
use tollgate::Error;

use crate::failure;
use crate::node::Node;
use crate::servers::Servers;

/// Keys that a server scans before it serves other commands.
const SLICE: usize = 1000;

/// Deletes the keys that match the pattern and are meant.
pub(crate) async fn clear(
    servers: &Servers,
    pattern: &[u8],
    is_meant: impl Fn(&[u8]) -> bool,
) -> Result<(), Error> {
    for node in servers.primaries().await? {
        let mut cursor = b"0".to_vec();
        loop {
            let (next, mut keys) = scan(&node, &cursor, pattern).await?;
            keys.retain(|key| is_meant(key));
            for key in keys {
                // Keys are deleted one by one, because in a cluster they are in different slots,
                // and may have moved.
                let mut unlink = redis::cmd("UNLINK");
                unlink.arg(&key[..]);
                let unlinked = node.in_time(servers.send(&key, &unlink)).await?;
                unlinked.map_err(|error| failure::of_command(&error))?;
            }
            if next == b"0" {
                break;
            }
            cursor = next;
        }
    }
    Ok(())
}

async fn scan(
    node: &Arc<Node>,
    cursor: &[u8],
    pattern: &[u8],
) -> Result<(Vec<u8>, Vec<Vec<u8>>), Error> {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SLICE);
    let reply: Value =
        node.send_in_time(&scan).await?.map_err(|error| failure::of_command(&error))?;
    redis::from_redis_value(reply)
        .map_err(|error| Error::store(format!("not a reply of SCAN: {error}"), false))
}
