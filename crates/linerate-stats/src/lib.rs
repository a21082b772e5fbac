//! linerate-stats
