//! linerate-testkit
