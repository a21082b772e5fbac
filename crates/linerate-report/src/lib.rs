//! linerate-report
