//! A benchmark of chunks and handshakes over loopback: `cargo run --release -p gristmill-transport --example channel_cost`.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::io;
use std::thread;

use gristmill_sync::clock::monotonic_ns;
use gristmill_transport::{
    Accepted, Channel, ChannelError, ChunkHead, Connector, FleetKeys, HandshakeProgress, Identity,
    Interest, Listener, Ready, Sleeper, TcpChannel, pair,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for _ in 0..3 {
        for (size, gathered) in [(64, 64), (512, 64), (64, 1), (4096, 16), (65_536, 4)] {
            let plan = Plan { size, gathered, total: 200 << 20 };
            let tcp = stream(connect()?, plan)?;
            let inproc = stream(pair()?, plan)?;
            println!("{size} bytes, {gathered} a flush: tcp {tcp}; without keys {inproc}");
        }
        let (small, large) = (exchange(connect()?, 64)?, exchange(connect()?, 4096)?);
        println!("there and back: {small:.1} us with 64 bytes, {large:.1} us with 4096");
        println!("handshake, both ends on one thread: {:.0} us", handshakes(200)?);
    }
    Ok(())
}

/// The plan of one stream: the size of each chunk in bytes, the chunks before each flush, and the largest total in bytes.
#[derive(Clone, Copy)]
struct Plan {
    size: usize,
    gathered: usize,
    total: usize,
}

/// Connects two ends.
fn connect() -> Result<(TcpChannel, TcpChannel), Box<dyn std::error::Error>> {
    let fleet = FleetKeys::generate()?;
    let listener = Listener::bind("127.0.0.1:0".parse()?, Identity::of_node(&fleet.node))?;
    let connector = Connector::new(Identity::of_client(&fleet.client));
    Ok(meet(&connector, &listener)?)
}

fn meet(
    connector: &Connector,
    listener: &Listener,
) -> Result<(TcpChannel, TcpChannel), ChannelError> {
    let mut out = connector.connect(listener.address(), u64::MAX)?;
    let mut into = loop {
        if let Accepted::Peer(into) = listener.accept(u64::MAX)? {
            break into;
        }
    };
    let (mut client, mut node) = (None, None);
    loop {
        if client.is_none()
            && let HandshakeProgress::Done(channel) = out.progress(0)?
        {
            client = Some(channel);
        }
        if node.is_none()
            && let HandshakeProgress::Done(channel) = into.progress(0)?
        {
            node = Some(channel);
        }
        if client.is_some() && node.is_some() {
            return Ok((client.take().expect("it is"), node.take().expect("it is")));
        }
    }
}

/// Returns the microseconds of one handshake.
fn handshakes(count: u32) -> Result<f64, Box<dyn std::error::Error>> {
    let fleet = FleetKeys::generate()?;
    let listener = Listener::bind("127.0.0.1:0".parse()?, Identity::of_node(&fleet.node))?;
    let connector = Connector::new(Identity::of_client(&fleet.client));
    let start = monotonic_ns();
    for _ in 0..count {
        drop(meet(&connector, &listener)?);
    }
    Ok((monotonic_ns() - start) as f64 / 1000.0 / f64::from(count))
}

/// Sleeps until the channel has something to do.
fn rest(sleeper: &mut Sleeper, channel: &impl Channel, ready: &mut Vec<Ready>) -> io::Result<()> {
    sleeper.watch(channel.descriptor(), 1, channel.interest())?;
    let _ = sleeper.sleep(ready, None)?;
    Ok(())
}

/// Returns the processor time of this process so far, ns: in user mode, and in the kernel. In steps of 10 ms.
fn spent() -> io::Result<[f64; 2]> {
    let line = std::fs::read_to_string("/proc/self/stat")?;
    // Fields are counted from 3 behind the process name, because the name may contain any character.
    let fields: Vec<&str> =
        line.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|field| field.parse().ok());
    Ok([14, 15].map(|field| ticks(field).unwrap_or(0.0) * 1e7))
}

/// Sends chunks from one thread to another. Returns the cost of a chunk and the rate as text.
fn stream<C: Channel + Send + 'static>(
    (mut from, mut to): (C, C),
    plan: Plan,
) -> Result<String, Box<dyn std::error::Error>> {
    let count = (plan.total / (plan.size + 24)).min(1_000_000);
    let (start, before) = (monotonic_ns(), spent()?);
    let sender = thread::spawn(move || -> Result<C, String> {
        send_all(&mut from, plan, count).map_err(|error| error.to_string())?;
        Ok(from)
    });
    let (mut sleeper, mut ready) = (Sleeper::new()?, Vec::new());
    let (mut body, mut received) = (Vec::new(), 0);
    while received < count {
        while to.receive(&mut body)?.is_some() {
            received += 1;
        }
        if received < count {
            rest(&mut sleeper, &to, &mut ready)?;
        }
    }
    let ns = (monotonic_ns() - start) as f64;
    sender.join().expect("it has sent everything")?;
    let (each, rate) = (ns / count as f64, (count * plan.size) as f64 / ns);
    let after = spent()?;
    let [own, kernel] = [0, 1].map(|index| (after[index] - before[index]) / count as f64);
    let cost = format!("{own:.0} + {kernel:.0} ns of processor");
    Ok(format!("{each:.0} ns a chunk ({cost}), {rate:.2} GB/s"))
}

fn send_all(
    from: &mut impl Channel,
    plan: Plan,
    count: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut sleeper, mut ready) = (Sleeper::new()?, Vec::new());
    let body = vec![7; plan.size];
    for number in 1..=count {
        let head = ChunkHead { kind: 1, sequence: number as u64, acknowledged: 0 };
        from.send(head, &body)?;
        if number.is_multiple_of(plan.gathered) {
            let _ = from.flush()?;
        }
        while from.unsent() > 1 << 20 {
            rest(&mut sleeper, from, &mut ready)?;
            let _ = from.flush()?;
        }
    }
    while from.wants_write() {
        let _ = from.flush()?;
        rest_for_room(&mut sleeper, from, &mut ready)?;
    }
    Ok(())
}

fn rest_for_room(
    sleeper: &mut Sleeper,
    from: &impl Channel,
    ready: &mut Vec<Ready>,
) -> io::Result<()> {
    if from.wants_write() {
        sleeper.watch(from.descriptor(), 1, Interest::Writable)?;
        let _ = sleeper.sleep(ready, None)?;
    }
    Ok(())
}

/// Returns the microseconds for a chunk to another thread and its answer; both threads sleep in between.
fn exchange<C: Channel + Send + 'static>(
    (mut here, mut there): (C, C),
    size: usize,
) -> Result<f64, Box<dyn std::error::Error>> {
    const COUNT: u32 = 20_000;
    let echo = thread::spawn(move || -> Result<(), String> {
        let mut turn = || -> Result<(), Box<dyn std::error::Error>> {
            let (mut sleeper, mut ready, mut body) = (Sleeper::new()?, Vec::new(), Vec::new());
            for _ in 0..COUNT {
                let head = wait(&mut there, &mut sleeper, (&mut ready, &mut body))?;
                there.send(head, &body)?;
                let _ = there.flush()?;
            }
            Ok(())
        };
        turn().map_err(|error| error.to_string())
    });
    let (mut sleeper, mut ready, mut body) = (Sleeper::new()?, Vec::new(), vec![7; size]);
    let start = monotonic_ns();
    for _ in 0..COUNT {
        let sent = body.clone();
        here.send(ChunkHead::default(), &sent)?;
        let _ = here.flush()?;
        wait(&mut here, &mut sleeper, (&mut ready, &mut body))?;
    }
    let us = (monotonic_ns() - start) as f64 / 1000.0 / f64::from(COUNT);
    echo.join().expect("it has answered")?;
    Ok(us)
}

fn wait(
    channel: &mut impl Channel,
    sleeper: &mut Sleeper,
    (ready, body): (&mut Vec<Ready>, &mut Vec<u8>),
) -> Result<ChunkHead, Box<dyn std::error::Error>> {
    loop {
        if let Some(head) = channel.receive(body)? {
            return Ok(head);
        }
        rest(sleeper, channel, ready)?;
    }
}
