//! Which layer a stack counts to, and where it was called from: tables of the kernel's functions.
//!
//! The innermost function that a table knows decides; helpers that are called from everywhere (spinlocks' unlocking, RCU,
//! return thunks) are in none, so that their callers do. Names are those of Linux 5.4 to 6.18.

use linerate_model::profile::{CallPath, Layer};

use super::Frames;

/// Names with blanks between them; with `*` at its end or beginning the beginning or end of one. Earlier rows win.
type Rules<T> = &'static [(T, &'static str)];

const LAYERS: Rules<Layer> = &[
    (
        Layer::Idle,
        "default_idle* cpuidle_* intel_idle* acpi_idle* acpi_processor_ffh* mwait_idle* pv_native_safe_halt \
         native_safe_halt do_idle arch_cpu_idle* cpu_startup_entry cpu_idle_poll poll_idle tick_nohz_idle* \
         haltpoll* cpu_do_idle psci_*",
    ),
    (
        Layer::Copy,
        "copy_user* _copy_from_* _copy_to_* copy_from_* copy_to_* rep_movs* memcpy* __memcpy* memmove* \
         __memmove* copyin copyout copy_page_from* copy_page_to* csum_and_copy* skb_copy_bits \
         skb_copy_datagram* __skb_datagram_iter simple_copy_to_iter raw_copy_* __arch_copy_* __asm_copy_* \
         __copy_user* fault_in_* copy_mc_* __skb_to_sgvec* skb_splice_from_iter",
    ),
    (
        Layer::Checksum,
        "csum_partial* __csum_partial* do_csum skb_checksum* __skb_checksum* udp4_hwcsum ip_compute_csum \
         ip_fast_csum __udp4_lib_checksum* __tcp_checksum* crc32*",
    ),
    (
        Layer::Lock,
        "_raw_spin_lock* _raw_spin_trylock* native_queued_spin_lock* queued_spin_lock* __pv_queued_spin_lock* \
         _raw_read_lock* _raw_write_lock* queued_read_lock* queued_write_lock* mutex_lock* __mutex_lock* \
         mutex_spin* osq_lock rwsem_* down_* lock_sock* __lock_sock* bit_spin_lock rt_mutex* __rt_mutex* \
         rt_spin_* rt_read_* rt_write_* rtlock_* rwbase_*",
    ),
    (
        Layer::Offload,
        "skb_segment* __skb_gso_segment skb_gso_* skb_mac_gso_segment *gso_segment *_gro_receive \
         *_gro_receive_segment *gro_complete skb_gro_* dev_gro_receive napi_gro_* gro_* \
         skb_udp_tunnel_segment tcp_gso_tstamp",
    ),
    (
        Layer::Buffers,
        "kmem_cache_* kmalloc* __kmalloc* kfree* __kfree* kvfree* skb_release_* skb_free_* skb_clone \
         __skb_clone __alloc_skb alloc_skb* __napi_alloc* napi_alloc* __netdev_alloc* sock_alloc_send_* \
         __slab_* ___slab_* __build_skb* build_skb* napi_build_skb get_page_from_freelist __alloc_pages* \
         alloc_pages* __alloc_frozen* __free_pages* free_unref_* free_frozen* __free_frozen* page_frag_* \
         __page_frag* skb_page_frag_refill sk_page_frag_refill page_pool_* __page_pool* consume_skb \
         __consume_stateless_skb napi_consume_skb napi_skb_* skb_attempt_defer_free skb_defer_* kfree_skb* \
         sk_skb_reason_drop memset* __memset* clear_page* put_page* __folio_* folio_* mem_cgroup_* \
         __mem_cgroup_* obj_cgroup* memcg_* __memcg_* refill_obj_stock rmqueue* __rmqueue* skb_set_owner_w \
         sock_wfree __sock_wfree sock_rfree skb_put skb_pull* skb_push skb_trim __pskb_* pskb_* \
         skb_expand_head skb_ensure_writable* ___pskb_trim",
    ),
    (
        Layer::Scheduler,
        "schedule* __schedule* try_to_wake_up ttwu_* wake_up_* __wake_up* default_wake_function \
         autoremove_wake_function receiver_wake_function pick_next_* pick_task_* __pick_next* enqueue_task* \
         dequeue_task* enqueue_entity dequeue_entity* update_curr* update_load_avg* update_rq_clock* \
         update_cfs* finish_task_switch* __switch_to* switch_mm* switch_fpu_return prepare_task_switch \
         select_task_rq* select_idle_* sock_def_readable sock_def_write_space* ep_poll_callback pollwake \
         do_nanosleep hrtimer_* __hrtimer_* futex_* do_futex sched_* task_tick* scheduler_tick \
         update_process_times tick_* prepare_to_wait* finish_wait psi_* set_next_entity put_prev_* \
         check_preempt* wakeup_preempt* resched_curr* native_smp_send_reschedule newidle_balance load_balance \
         sched_balance_* yield_* exit_to_user_mode_loop native_load_tls rseq_* __rseq_*",
    ),
    (
        Layer::Firewall,
        "nf_* nft_* ipt_* ip6t_* xt_* __nf_* ipv4_conntrack* ipv6_conntrack* iptable_* br_nf_* bpf_* __bpf_* \
         cgroup_bpf* __cgroup_bpf* tcf_* cls_* act_*",
    ),
    (
        Layer::Qdisc,
        "__dev_queue_xmit dev_queue_xmit* sch_direct_xmit __qdisc_run qdisc_* pfifo_* fq_* tbf_* cake_* \
         netem_* htb_* hfsc_* mq_* prio_* codel_* sfq_* validate_xmit_* dev_hard_start_xmit \
         netdev_core_pick_tx netdev_pick_tx netif_skb_features skb_network_protocol net_tx_action \
         __netif_schedule __dev_direct_xmit xmit_one* __dev_xmit_skb dev_qdisc_enqueue",
    ),
    (
        Layer::Driver,
        "veth_* loopback_xmit virtnet_* virtqueue_* vring_* vm_notify vp_notify* start_xmit receive_buf \
         receive_mergeable free_old_xmit* mlx5* mlx4* ixgbe* i40e_* iavf_* ice_* igb_* igc_* e1000* rtl8169* \
         rtl_* bnxt_* bnx2* ena_* vmxnet3_* gve_* netvsc_* hv_* efx_* tg3_* atl* stmmac_* macb_* fec_* tun_* \
         tap_* br_* bond_* vlan_* macvlan_* ipvlan_* vxlan_* dma_* iommu_* __iommu_* arm_smmu* swiotlb_* \
         eth_type_trans eth_header netdev_tx_* dev_forward_skb __dev_forward_skb* dummy_xmit ifb_*",
    ),
    (
        Layer::Protocol,
        "udp* __udp* tcp* __tcp* bictcp* cubictcp* bbr_* dctcp_* ip_* __ip_* ip6_* __ip6_* ipv4_* ipv6_* \
         inet_* __inet* inet6_* raw_* icmp* fib_* __fib_* neigh_* __neigh_* arp_* dst_* rt_* sk_* __sk_* \
         skb_consume_udp __skb_recv_udp first_packet_length sock_queue_* __sock_queue_* release_sock \
         __release_sock skb_release_head_state mptcp_* xfrm_* ndisc_* csum_tcpudp* tcpv6* \
         __skb_wait_for_more_packets __skb_try_recv* skb_orphan*",
    ),
    (
        Layer::Softirq,
        "do_softirq* __do_softirq handle_softirqs irq_exit* __irq_exit* net_rx_action __napi_poll napi_* \
         process_backlog __netif_receive_skb* netif_receive_skb* netif_rx* __netif_rx* enqueue_to_backlog \
         get_rps_cpu rps_* run_ksoftirqd __local_bh_enable_ip rcu_core* rcu_do_batch note_gp_changes \
         run_timer_softirq __run_timers* asm_sysvec_* sysvec_* asm_common_interrupt common_interrupt \
         handle_irq* handle_edge_irq handle_fasteoi* generic_handle_* __common_interrupt asm_call_irq* \
         el1_interrupt el1h_64_irq* gic_handle_irq do_interrupt_handler __irqentry* irqentry_* irq_enter* \
         tasklet_* smpboot_thread_fn __flush_smp_call* flush_smp_call* __skb_flow_dissect skb_defer_rx* \
         asm_exc_* exc_* do_user_addr_fault handle_mm_fault busy_poll*",
    ),
    (
        Layer::Syscall,
        "entry_SYSCALL* entry_SYSRET* do_syscall_* x64_sys_call __x64_sys_* __ia32_* __sys_* ___sys_* \
         ____sys_* __do_sys_* __se_sys_* syscall_* el0_svc* el0t_* invoke_syscall* __arm64_sys_* \
         do_trap_ecall_u __riscv_sys_* sock_* __sock_* import_iovec import_ubuf __import_iovec copy_msghdr* \
         sendmsg_copy_msghdr recvmsg_copy_msghdr get_timespec64 fput* __fput* fdget* __fdget* __fget* \
         sockfd_lookup* security_* apparmor_* aa_* selinux_* put_cmsg* __get_user* __put_user* ksys_* vfs_* \
         new_sync_* do_sendfile* splice_* do_splice* iter_file_splice* generic_file_* filemap_* shmem_* \
         do_epoll* ep_* do_sys_poll do_poll* poll_* do_pselect* do_select core_sys_select do_ppoll* \
         move_addr_to_* seccomp_* __seccomp* syscall_trace* audit_* __audit* exit_to_user_mode* fpregs_* \
         ktime_get* do_clock_gettime* read_tsc kvm_clock* pvclock* timekeeping_* ip_cmsg_*",
    ),
];

/// The calls' own functions, and those of a hypervisor's or older kernel's names for them.
const PATHS: Rules<CallPath> = &[
    (
        CallPath::Softirq,
        "net_rx_action __do_softirq handle_softirqs do_softirq* __netif_receive_skb* process_backlog \
         __napi_poll napi_threaded_poll*",
    ),
    (
        CallPath::Send,
        "__sys_send* ___sys_sendmsg ____sys_sendmsg __x64_sys_send* __arm64_sys_send* __sock_sendmsg \
         sock_sendmsg* sock_write_iter ksys_write vfs_write do_sendfile tcp_sendmsg* udp_sendmsg \
         udpv6_sendmsg inet_sendmsg inet6_sendmsg __sys_writev do_writev do_splice*",
    ),
    (
        CallPath::Receive,
        "__sys_recv* ___sys_recvmsg ____sys_recvmsg do_recvmmsg __x64_sys_recv* __arm64_sys_recv* \
         sock_recvmsg* sock_read_iter ksys_read vfs_read tcp_recvmsg* udp_recvmsg udpv6_recvmsg inet_recvmsg \
         inet6_recvmsg do_readv",
    ),
    (CallPath::Call, "entry_SYSCALL* do_syscall_* el0_svc* do_trap_ecall_u invoke_syscall*"),
];

fn matches(name: &str, pattern: &str) -> bool {
    match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(beginning), _) => name.starts_with(beginning),
        (_, Some(end)) => name.ends_with(end),
        _ => name == pattern,
    }
}

fn of<T: Copy>(rules: Rules<T>, name: &str) -> Option<T> {
    let row =
        rules.iter().find(|(_, names)| names.split(' ').any(|pattern| matches(name, pattern)));
    row.map(|(what, _)| *what)
}

/// The layer of a function of the kernel by itself, if a rule names it.
pub fn layer_of(name: &str) -> Option<Layer> {
    of(LAYERS, name.strip_suffix(super::KERNEL).unwrap_or(name))
}

/// The layer of a stack.
pub fn layer(frames: Frames<'_>) -> Layer {
    if frames.is_sampler() {
        return Layer::Sampler;
    }
    if frames.is_unnamed_idle() {
        return Layer::Idle;
    }
    let Some(innermost) = frames.calls().next() else {
        return if frames.is_other() { Layer::Other } else { Layer::User };
    };
    // What an interrupt does while another program runs is the network's.
    if frames.is_other() && path_of_kernel(frames) != Some(CallPath::Softirq) {
        return Layer::Other;
    }
    if !Frames::is_kernel(innermost) {
        return if spins(frames, innermost) { Layer::Spin } else { Layer::User };
    }
    frames.kernel().find_map(|name| of(LAYERS, name)).unwrap_or(Layer::Kernel)
}

/// A sending thread reads the clock once a call, and over and over while it waits for the next one's moment. Who called
/// the clock is mostly not known: its functions keep no frame pointer.
fn spins(frames: Frames<'_>, innermost: &str) -> bool {
    let reads_clock = innermost == "[vdso]"
        || innermost.contains("clock_gettime")
        || innermost.starts_with("linerate_engine::clock::");
    let task = frames.task();
    let task = task.split_once(": ").map_or(task, |(_, task)| task);
    frames.calls().any(|name| name.ends_with("::spin_until"))
        || reads_clock && task.starts_with("send-")
}

fn path_of_kernel(frames: Frames<'_>) -> Option<CallPath> {
    frames.kernel().find_map(|name| of(PATHS, name))
}

/// Where a stack was called from.
pub fn path(frames: Frames<'_>) -> CallPath {
    if frames.is_sampler() {
        return CallPath::Sampler;
    }
    let found = path_of_kernel(frames);
    let in_kernel = frames.calls().next().is_some_and(Frames::is_kernel);
    match found {
        Some(CallPath::Softirq) => CallPath::Softirq,
        _ if frames.is_other() => CallPath::Other,
        Some(path) => path,
        None if layer(frames) == Layer::Idle => CallPath::Idle,
        None if in_kernel => CallPath::Kernel,
        None => CallPath::User,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks as Linux 6.18 gives them, the innermost function last.
    const KNOWN: &[(&str, Layer, CallPath)] = &[
        (
            "send-0;sendmmsg;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];__x64_sys_sendmmsg_[k];__sys_sendmmsg_[k];\
          ___sys_sendmsg_[k];____sys_sendmsg_[k];udp_sendmsg_[k];ip_make_skb_[k];__ip_append_data_[k];ip_generic_getfrag_[k];\
          _copy_from_iter_[k];rep_movs_alternative_[k]",
            Layer::Copy,
            CallPath::Send,
        ),
        (
            "send-0;__send;do_syscall_64_[k];__sys_sendto_[k];udp_sendmsg_[k]",
            Layer::Protocol,
            CallPath::Send,
        ),
        // Helpers that are called from everywhere count to who called them.
        (
            "send-0;do_syscall_64_[k];__sys_sendto_[k];udp_sendmsg_[k];__rcu_read_lock_[k]",
            Layer::Protocol,
            CallPath::Send,
        ),
        (
            "send-0;do_syscall_64_[k];__sys_sendto_[k];sock_def_readable_[k];__wake_up_sync_key_[k];_raw_spin_unlock_irqrestore_[k]",
            Layer::Scheduler,
            CallPath::Send,
        ),
        // Over loopback the sender takes the packet in itself.
        (
            "send-0;do_syscall_64_[k];__sys_sendto_[k];udp_sendmsg_[k];ip_finish_output2_[k];__local_bh_enable_ip_[k];do_softirq_[k];\
          handle_softirqs_[k];net_rx_action_[k];process_backlog_[k];ip_rcv_[k];udp_queue_rcv_one_skb_[k]",
            Layer::Protocol,
            CallPath::Softirq,
        ),
        (
            "receive-0;do_syscall_64_[k];__x64_sys_recvmmsg_[k];__sys_recvmmsg_[k];do_recvmmsg_[k];udp_recvmsg_[k];\
          __skb_recv_udp_[k];_raw_spin_lock_bh_[k];native_queued_spin_lock_slowpath_[k]",
            Layer::Lock,
            CallPath::Receive,
        ),
        // With PREEMPT_RT a spinlock is one that sleeps, and no route.
        (
            "receive-0;do_syscall_64_[k];__sys_recvmmsg_[k];udp_recvmsg_[k];rt_spin_lock_[k]",
            Layer::Lock,
            CallPath::Receive,
        ),
        (
            "receive-0;do_syscall_64_[k];__sys_recvmmsg_[k];udp_recvmsg_[k];skb_copy_datagram_iter_[k];__skb_datagram_iter_[k];\
          simple_copy_to_iter_[k]",
            Layer::Copy,
            CallPath::Receive,
        ),
        (
            "send-0;do_syscall_64_[k];__x64_sys_clock_nanosleep_[k];hrtimer_nanosleep_[k];schedule_[k]",
            Layer::Scheduler,
            CallPath::Call,
        ),
        ("send-0;linerate_data::udp_send::run", Layer::User, CallPath::User),
        ("linerate 77: receive-0;linerate_data::udp_recv::run", Layer::User, CallPath::User),
        ("send-0;linerate_data::wait::spin_until", Layer::Spin, CallPath::User),
        ("send-0;linerate_data::wait::spin_until;[vdso]", Layer::Spin, CallPath::User),
        ("linerate 77: send-0;[vdso]", Layer::Spin, CallPath::User),
        ("receive-0;[vdso]", Layer::User, CallPath::User),
        // What interrupts it is no waiting.
        (
            "send-0;linerate_data::wait::spin_until;asm_common_interrupt_[k];irq_exit_rcu_[k]",
            Layer::Softirq,
            CallPath::Kernel,
        ),
        ("sampler;read;do_syscall_64_[k];ksys_read_[k]", Layer::Sampler, CallPath::Sampler),
        ("other: cc1", Layer::Other, CallPath::Other),
        ("other: cc1;do_syscall_64_[k];ksys_read_[k]", Layer::Other, CallPath::Other),
        (
            "other: cc1;asm_common_interrupt_[k];irq_exit_rcu_[k];handle_softirqs_[k];net_rx_action_[k];veth_poll_[k]",
            Layer::Driver,
            CallPath::Softirq,
        ),
        (
            "kernel: ksoftirqd/0;run_ksoftirqd_[k];handle_softirqs_[k];net_rx_action_[k]",
            Layer::Softirq,
            CallPath::Softirq,
        ),
        (
            "idle task;do_idle_[k];default_idle_[k];pv_native_safe_halt_[k]",
            Layer::Idle,
            CallPath::Idle,
        ),
        // Where the kernel hides its names.
        ("idle task;[kernel]_[k];[kernel]_[k]", Layer::Idle, CallPath::Idle),
        ("send-0;[kernel]_[k];[kernel]_[k]", Layer::Kernel, CallPath::Kernel),
        // Where one function has none its callers tell.
        (
            "idle task;do_idle_[k];handle_softirqs_[k];net_rx_action_[k];[kernel]_[k]",
            Layer::Softirq,
            CallPath::Softirq,
        ),
        (
            "idle task;do_idle_[k];default_idle_[k];asm_sysvec_x_[k];irq_exit_rcu_[k];handle_softirqs_[k];net_rx_action_[k];\
          napi_gro_receive_[k]",
            Layer::Offload,
            CallPath::Softirq,
        ),
        (
            "send-0;do_syscall_64_[k];ksys_write_[k];tcp_sendmsg_locked_[k];tcp_write_xmit_[k];__tcp_transmit_skb_[k];\
          __dev_queue_xmit_[k];fq_codel_enqueue_[k]",
            Layer::Qdisc,
            CallPath::Send,
        ),
        ("send-0;a_name_from_tomorrow_[k]", Layer::Kernel, CallPath::Kernel),
    ];

    #[test]
    fn known_stacks_count_to_their_layers() {
        for (stack, what, whence) in KNOWN {
            let frames = Frames::of(stack);
            assert_eq!((layer(frames), path(frames)), (*what, *whence), "{stack}");
        }
    }

    #[test]
    fn every_layer_of_the_kernel_has_a_rule_and_no_rule_is_there_twice() {
        let beside = [Layer::User, Layer::Spin, Layer::Kernel, Layer::Sampler, Layer::Other];
        let ruled = |layer: &Layer| LAYERS.iter().any(|(of, _)| of == layer);
        assert!(Layer::ALL.iter().filter(|layer| !beside.contains(layer)).all(ruled));
        let all: Vec<&str> = LAYERS.iter().flat_map(|(_, names)| names.split(' ')).collect();
        for (i, name) in all.iter().enumerate() {
            assert!(!all[..i].contains(name), "{name} twice");
        }
    }
}
