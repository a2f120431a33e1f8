//! What goes wrong with servers. In each case: no panic, no call that hangs past its deadline, the
//! chosen rule holds, and with a healthy store never more is admitted than the limit.

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
