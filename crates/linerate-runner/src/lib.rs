//! linerate-runner
