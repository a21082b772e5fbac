//! linerate-host
