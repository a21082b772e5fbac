//! With a real nats-server: leases, orders, results, and who may do what.

mod enrolment;
mod events;
mod health;
mod leases;
mod results;
mod revoke;
mod world;
