//! linerate-session
