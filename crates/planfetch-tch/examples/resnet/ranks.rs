//! Sums over ranks by TCP: each sends to rank 0, which adds in the order of ranks and sends the sum back.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use planfetch::prelude::{BoxError, World};
use tch::{Device, Kind, Tensor, no_grad};

/// How often a rank looks for rank 0, a fifth of a second apart.
const ATTEMPTS: u32 = 600;

/// The connections of this process: on rank 0 to each of the others in order, on the others to rank 0.
pub(crate) struct Ranks {
    world: World,
    peers: Vec<TcpStream>,
}

impl Ranks {
    /// Meets the others. A process that trains alone meets nobody.
    pub(crate) fn join(world: World, address: Option<&str>) -> Result<Self, BoxError> {
        if world.world_size == 1 {
            return Ok(Self { world, peers: Vec::new() });
        }
        let address = address.ok_or("--sum-at is missing: host and port of rank 0, since there are several ranks")?;
        let peers = if world.rank == 0 { accept(address, world)? } else { vec![connect(address, world.rank)?] };
        for peer in &peers {
            peer.set_nodelay(true)?;
        }
        Ok(Self { world, peers })
    }

    /// Has each tensor be the sum of all ranks' tensors. All ranks get the same bits.
    pub(crate) fn sum(&mut self, tensors: &mut [Tensor]) -> Result<(), BoxError> {
        if self.peers.is_empty() || tensors.is_empty() {
            return Ok(());
        }
        let flat: Vec<Tensor> = tensors
            .iter()
            .map(|tensor| tensor.f_detach()?.f_to_device(Device::Cpu)?.f_to_kind(Kind::Float)?.f_reshape([-1]))
            .collect::<Result<_, _>>()?;
        let flat = Tensor::f_cat(&flat, 0)?;
        let mut values = vec![0_f32; flat.numel()];
        flat.f_copy_data(&mut values, flat.numel())?;
        let mut bytes = vec![0_u8; values.len() * 4];
        if self.world.rank == 0 {
            for peer in &mut self.peers {
                peer.read_exact(&mut bytes)?;
                for (value, other) in values.iter_mut().zip(bytes.chunks_exact(4)) {
                    *value += f32::from_le_bytes([other[0], other[1], other[2], other[3]]);
                }
            }
        }
        for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        for peer in &mut self.peers {
            peer.write_all(&bytes)?;
        }
        if self.world.rank != 0 {
            self.peers[0].read_exact(&mut bytes)?;
            for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(4)) {
                *value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
        }
        let mut rest = values.as_slice();
        no_grad(|| {
            for tensor in tensors {
                let (own, others) = rest.split_at(tensor.numel());
                rest = others;
                tensor.f_copy_(&Tensor::f_from_slice(own)?.f_reshape(tensor.size())?)?;
            }
            Ok(())
        })
    }

    /// Has each tensor be the mean of all ranks' tensors.
    pub(crate) fn average(&mut self, tensors: &mut [Tensor]) -> Result<(), BoxError> {
        if self.peers.is_empty() {
            return Ok(());
        }
        self.sum(tensors)?;
        no_grad(|| {
            for tensor in tensors {
                let mean = tensor.f_div_scalar(f64::from(self.world.world_size))?;
                tensor.f_copy_(&mean)?;
            }
            Ok(())
        })
    }
}

fn accept(address: &str, world: World) -> Result<Vec<TcpStream>, BoxError> {
    let listener = TcpListener::bind(address).map_err(|error| format!("can't listen at {address}: {error}"))?;
    let mut peers: Vec<Option<TcpStream>> = (1..world.world_size).map(|_| None).collect();
    while peers.iter().any(Option::is_none) {
        let (mut peer, from) = listener.accept()?;
        let mut rank = [0; 4];
        peer.read_exact(&mut rank)?;
        let rank = usize::try_from(u32::from_le_bytes(rank))?;
        let slot = rank.checked_sub(1).and_then(|i| peers.get_mut(i)).filter(|slot| slot.is_none());
        *slot.ok_or_else(|| format!("{from} says it is rank {rank} of {}", world.world_size))? = Some(peer);
    }
    Ok(peers.into_iter().flatten().collect())
}

fn connect(address: &str, rank: u32) -> Result<TcpStream, BoxError> {
    // Nobody sends: a wait that nothing ends early.
    let (_sender, never) = channel::<()>();
    let mut attempt = 1;
    let mut peer = loop {
        match TcpStream::connect(address) {
            Ok(peer) => break peer,
            Err(error) if attempt == ATTEMPTS => return Err(format!("can't reach rank 0 at {address}: {error}").into()),
            Err(_) => attempt += 1,
        }
        let _ = never.recv_timeout(Duration::from_millis(200));
    };
    peer.write_all(&rank.to_le_bytes())?;
    Ok(peer)
}
