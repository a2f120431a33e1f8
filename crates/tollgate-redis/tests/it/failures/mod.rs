//! Failures of servers. In each case: no panic, no call hangs past its deadline, the chosen rule
//! applies, and with a healthy store never more is admitted than the limit.

mod cluster_down;
mod connecting;
mod failover;
mod frozen;
mod local;
mod memory;
mod outage;
mod overload;
mod restart;
mod slots;
mod values;
mod waits;
