//! linerate-engine
