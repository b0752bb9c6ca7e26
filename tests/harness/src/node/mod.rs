//! Nodes: the image they boot, their QEMUs, consoles and screens, and readers of their memory.

pub mod accel;
pub mod freeze;
pub mod image;
pub mod keyboard;
pub mod launch;
pub mod logs;
pub mod machine;
pub mod monitor;
pub mod page_table_audit;
pub mod screen_text;
pub mod start_requests;
pub mod trace;
