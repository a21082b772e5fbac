//! With a real nats-server: leases, orders, results, and who may do what.

mod enrolment;
mod events;
mod health;
mod hostile;
mod leases;
mod results;
mod revoke;
mod world;
