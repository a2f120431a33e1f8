//! The name of this server in a fleet.

use crate::settings::Settings;

/// The host name and the ports: the same after a restart, and different for each server of one
/// machine. `None` if the system chooses every port.
pub(super) fn name(settings: &Settings) -> Option<String> {
    let addresses = [settings.http, settings.grpc, settings.resp, settings.admin];
    let ports: Vec<_> = addresses
        .into_iter()
        .flatten()
        .map(|address| address.port())
        .filter(|port| *port != 0)
        .map(|port| port.to_string())
        .collect();
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    (!ports.is_empty()).then(|| format!("{host}:{}", ports.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_one_machine_have_different_names() {
        let mut settings = Settings::default();
        let first = name(&settings);
        assert!(first.as_ref().is_some_and(|name| name.ends_with(":8080,8081,6380,8082")));
        settings.http = None;
        assert_ne!(name(&settings), first);
        let free = "127.0.0.1:0".parse().ok();
        let Settings { http, grpc, resp, admin, .. } = &mut settings;
        for address in [http, grpc, resp, admin] {
            *address = free;
        }
        assert_eq!(name(&settings), None);
    }
}
