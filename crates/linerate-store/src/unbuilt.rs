//! A build without PostgreSQL (feature `postgres`).

use crate::{Address, LeaseAudit, Meta, StoreError, StoreReader, StoreWriter};

fn unbuilt<T>(address: &Address) -> Result<T, StoreError> {
    Err(StoreError::Unbuilt(address.to_string()))
}

pub(crate) fn exists(address: &Address) -> Result<bool, StoreError> {
    unbuilt(address)
}

pub(crate) fn create(address: &Address, _: &Meta) -> Result<Box<dyn StoreWriter>, StoreError> {
    unbuilt(address)
}

pub(crate) fn open(address: &Address) -> Result<Box<dyn StoreWriter>, StoreError> {
    unbuilt(address)
}

pub(crate) fn read(address: &Address) -> Result<Box<dyn StoreReader>, StoreError> {
    unbuilt(address)
}

pub(crate) fn audit(address: &Address) -> Result<Box<dyn LeaseAudit>, StoreError> {
    unbuilt(address)
}

pub(crate) fn is_locked(address: &Address) -> Result<bool, StoreError> {
    unbuilt(address)
}

pub(crate) fn stop(address: &Address) -> Result<bool, StoreError> {
    unbuilt(address)
}
