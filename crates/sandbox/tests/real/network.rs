// SPDX-License-Identifier: Apache-2.0
//! Every dial lands on the capture listener; everything else goes nowhere.

use crate::harness::Running;
use crate::inside::LEVELS;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use torno_sandbox::Level;

fn wait(fd: BorrowedFd<'_>) {
    let limit = Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    assert_eq!(
        poll(
            &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
            Some(&limit)
        )
        .unwrap(),
        1,
        "nothing came"
    );
}

fn is_quiet(fd: BorrowedFd<'_>) -> bool {
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    poll(
        &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
        Some(&limit),
    )
    .unwrap()
        == 0
}

fn listener(fd: &std::os::fd::OwnedFd) -> TcpListener {
    fd.try_clone().unwrap().into()
}

#[test]
fn every_tcp_dial_is_captured_with_the_destination_it_asked_for() {
    for level in LEVELS {
        let Some(mut sandbox) = Running::new(level) else {
            continue;
        };
        let v4 = listener(&sandbox.sockets().tcp_v4);
        for target in [
            "8.8.8.8:443",
            "169.254.169.254:80",
            "198.18.0.7:22",
            "10.0.0.1:3128",
            "93.184.215.14:12345",
            "1.1.1.1:53",
        ] {
            let expected: SocketAddrV4 = target.parse().unwrap();
            sandbox.send(&format!(
                "import socket; s = socket.create_connection(('{}', {}), 5); s.sendall(b'hello'); print(s.recv(5))",
                expected.ip(), expected.port()
            ));
            wait(v4.as_fd());
            let (stream, _) = v4.accept().unwrap();
            assert_eq!(
                rustix::net::sockopt::ip_original_dst(&stream).unwrap(),
                expected,
                "{level:?}"
            );
            std::io::Write::write_all(&mut &stream, b"HELLO").unwrap();
            assert_eq!(sandbox.answer().trim(), "b'HELLO'", "{level:?} {target}");
        }
        let Some(v6) = &sandbox.sockets().tcp_v6 else {
            continue;
        };
        let v6 = listener(v6);
        for target in ["[2606:4700::1111]:443", "[fd00::1]:8080", "[fe80::1]:80"] {
            let expected: SocketAddrV6 = target.parse().unwrap();
            sandbox.send(&format!(
                "import socket; s = socket.socket(socket.AF_INET6); s.settimeout(5); s.connect(('{}', {}, 0, {})); print('connected')",
                expected.ip(), expected.port(), u8::from(target.contains("fe80"))
            ));
            if target.contains("fe80") {
                // A link-local dial needs an interface's scope; it is captured or refused, never sent.
                let _ = sandbox.answer();
                continue;
            }
            wait(v6.as_fd());
            let (stream, _) = v6.accept().unwrap();
            let found = rustix::net::sockopt::ipv6_original_dst(&stream).unwrap();
            assert_eq!(
                (found.ip(), found.port()),
                (expected.ip(), expected.port()),
                "{level:?}"
            );
            assert_eq!(sandbox.answer().trim(), "connected");
        }
        let mapped = "import socket; s = socket.socket(socket.AF_INET6); s.settimeout(5); s.connect(('::ffff:8.8.4.4', 444)); print('connected')";
        sandbox.send(mapped);
        wait(v4.as_fd());
        let (stream, _) = v4.accept().unwrap();
        assert_eq!(
            rustix::net::sockopt::ip_original_dst(&stream).unwrap(),
            "8.8.4.4:444".parse().unwrap()
        );
        assert_eq!(sandbox.answer().trim(), "connected");
    }
}

#[test]
fn the_capture_port_cannot_be_dialled_by_name() {
    for level in LEVELS {
        let Some(mut sandbox) = Running::new(level) else {
            continue;
        };
        for (family, address) in [
            ("AF_INET", "127.0.0.1"),
            ("AF_INET", "127.9.9.9"),
            ("AF_INET6", "::1"),
        ] {
            let answer = sandbox.run(&format!(
                "import socket; s = socket.socket(socket.{family}); s.settimeout(2); s.connect(('{address}', 3129)); print('connected')"
            ));
            assert!(
                answer.contains("ConnectionRefused"),
                "{level:?} {address}: {answer}"
            );
        }
        assert!(is_quiet(sandbox.sockets().tcp_v4.as_fd()));
    }
}

#[test]
fn datagrams_and_other_protocols_leave_nothing_and_reach_nobody() {
    for level in LEVELS {
        let Some(mut sandbox) = Running::new(level) else {
            continue;
        };
        let answer = sandbox.run(
            "import socket
def attempt(label, family, kind, protocol, address):
    try:
        s = socket.socket(family, kind, protocol); s.settimeout(0.3)
        s.sendto(b'x', address); s.recvfrom(10); print(label)
    except OSError: pass
attempt('udp', socket.AF_INET, socket.SOCK_DGRAM, 0, ('8.8.8.8', 53))
attempt('udp high', socket.AF_INET, socket.SOCK_DGRAM, 0, ('198.18.0.1', 443))
attempt('udp v6', socket.AF_INET6, socket.SOCK_DGRAM, 0, ('2606:4700::1111', 53))
attempt('ping', socket.AF_INET, socket.SOCK_DGRAM, 1, ('8.8.8.8', 0))
attempt('raw icmp', socket.AF_INET, socket.SOCK_RAW, 1, ('8.8.8.8', 0))
attempt('raw udp', socket.AF_INET, socket.SOCK_RAW, 17, ('8.8.8.8', 0))
attempt('packet', socket.AF_PACKET, socket.SOCK_RAW, 3, ('lo', 0))
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); own.bind(('0.0.0.0', 5353)); own.settimeout(0.3)
try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 5353)); own.recv(1); print('looped')
except OSError: pass
for name, family in (('vsock', 40), ('alg', 38), ('xdp', 44), ('tipc', 30)):
    try: socket.socket(family, socket.SOCK_STREAM); print(name)
    except OSError: pass
try: s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132); s.settimeout(0.3); s.connect(('8.8.8.8', 80)); print('sctp')
except OSError: pass",
        );
        assert_eq!(answer, "", "{level:?}");
        assert!(
            is_quiet(sandbox.sockets().dns_udp.as_fd()),
            "{level:?}: a datagram to another address reached the stub"
        );
    }
}

#[test]
fn names_are_asked_of_the_stub_and_the_proxy_is_on_loopback() {
    for level in LEVELS {
        let Some(mut sandbox) = Running::new(level) else {
            continue;
        };
        let stub: UdpSocket = sandbox.sockets().dns_udp.try_clone().unwrap().into();
        sandbox.send("import socket\ntry: socket.getaddrinfo('api.example.org', 443)\nexcept OSError: print('no answer')");
        wait(stub.as_fd());
        let mut question = [0; 512];
        let (length, from) = stub.recv_from(&mut question).unwrap();
        let asked = String::from_utf8_lossy(question.get(..length).unwrap()).into_owned();
        assert!(asked.contains("example"), "{level:?}");
        assert!(matches!(from, SocketAddr::V4(from) if from.ip().is_loopback()));
        // The answer is the gate's; here it stays out and the client gives up.
        assert_eq!(sandbox.answer().trim(), "no answer");
        let proxy = listener(&sandbox.sockets().proxy);
        sandbox.send("import socket; s = socket.create_connection(('localhost', 3128), 5); print('connected')");
        wait(proxy.as_fd());
        proxy.accept().unwrap();
        assert_eq!(sandbox.answer().trim(), "connected", "{level:?}");
    }
}

#[test]
fn there_is_no_interface_but_loopback() {
    for level in LEVELS {
        let Some(mut sandbox) = Running::new(level) else {
            continue;
        };
        let code = "import socket; print([name for _, name in socket.if_nameindex()]); print([l.split(':')[0].strip() for l in open('/proc/net/dev').readlines()[2:]])";
        assert_eq!(sandbox.run(code), "['lo']\n['lo']", "{level:?}");
    }
}

#[test]
fn programs_inside_talk_to_each_other_over_loopback() {
    for level in LEVELS {
        let Some(mut sandbox) = Running::new(level) else {
            continue;
        };
        let code = "import socket
l = socket.create_server(('127.0.0.1', 8080)); c = socket.create_connection(('127.0.0.1', 8080)); s, _ = l.accept(); c.sendall(b'tcp'); print(s.recv(3))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 5000)); u.sendto(b'udp', ('127.0.0.1', 5000)); print(u.recv(3))";
        assert_eq!(sandbox.run(code), "b'tcp'\nb'udp'", "{level:?}");
    }
}

#[test]
fn one_sandbox_cannot_dial_another() {
    let (Some(mut first), Some(mut second)) = (
        Running::new(Level::Container),
        Running::new(Level::Container),
    ) else {
        return;
    };
    first.run("import socket, builtins; builtins.l = socket.create_server(('0.0.0.0', 8080))");
    let answer = second.run("import socket; s = socket.socket(); s.settimeout(1); s.connect(('127.0.0.1', 8080)); print('connected')");
    assert!(answer.contains("ConnectionRefused"), "{answer}");
}
