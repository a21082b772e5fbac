//! Tests of the program as a whole: what it does over loopback, in namespaces and in virtual machines, against real
//! peers and hostile ones. One program of tests, so that what they share is built once, and those that wait make room
//! for those that work.

#[cfg(feature = "nats")]
mod agents;
#[cfg(feature = "nats")]
mod agents_mesh;
#[cfg(feature = "nats")]
mod agents_nat;
#[cfg(feature = "nats")]
mod agents_operator;
mod all_dialects;
mod bad_servers;
mod campaign;
mod cli;
mod compare;
mod control;
mod delay;
mod dialect_experiments;
mod doctor;
mod documents;
mod every_option;
mod fleet;
mod fleet_page;
#[cfg(feature = "postgres")]
mod fleet_postgres;
mod fleet_schedule;
mod flent;
mod foreign;
mod hostile;
mod iperf2;
mod iperf2_face;
mod iperf2_hostile;
mod iperf3_ends;
mod iperf3_face;
mod iperf3_hostile;
mod iperf3_server;
mod keep;
mod kept;
mod keys;
mod lab;
mod lab_settings;
mod library;
mod limits;
mod live;
mod local_errors;
mod loopback;
mod metrics;
mod ministat;
mod namespaces;
mod netperf;
mod netperf_face;
mod netperf_hostile;
mod nuttcp;
mod nuttcp_face;
mod nuttcp_golden;
mod nuttcp_hostile;
mod options;
mod pages;
mod privsep;
mod profile;
mod python;
mod report;
mod report_campaign;
mod report_shown;
mod router;
mod sandbox;
mod schema;
mod search;
mod server_log;
mod settings;
mod soak;
mod standstill;
mod support;
mod sweep;
mod trains;
mod truth;
mod tune;
mod unit;
mod watch;
mod web;
