//! Keys of single clients, and budgets of keys and networks: the file that a server's owner keeps, what a server
//! reads of it while it serves, and who is here under it.

use linerate_wire::native::auth;

use crate::random::random;

mod edit;
mod file;
mod kept;
mod permit;
mod state;

pub use edit::{add, revoke};
pub use file::{Budget, Fault, Key, NetworkBudget, Right, Secret, Table};
pub(crate) use kept::Asked;
pub use kept::Keys;
pub(crate) use permit::{BUDGET_HINT, Ending, Permit, Permits, Standing};
pub use state::BudgetState;
pub(crate) use state::Keeping;

/// Whether what a client's key file holds is no key of `linerate keys new` that was cut or changed.
///
/// # Errors
/// That it is.
pub fn whole(key: &[u8]) -> Result<(), String> {
    auth::key_id(key).map(drop).map_err(|e| e.to_string())
}

/// Id and secret of a new key.
pub fn fresh() -> (String, String) {
    (
        auth::to_hex(&random::<{ auth::ID_DIGITS / 2 }>()),
        auth::to_hex(&random::<{ auth::SECRET_DIGITS / 2 }>()),
    )
}
