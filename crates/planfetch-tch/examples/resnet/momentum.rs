//! Gradient descent with momentum, whose state can be saved: that of tch's own optimizers can't.

use planfetch::prelude::BoxError;
use tch::{Kind, Tensor, nn, no_grad};

/// The parameters of a net by name, and how fast each is moving.
pub(crate) struct Momentum {
    parameters: Vec<(String, Tensor)>,
    velocities: Vec<Tensor>,
    buffers: Vec<Tensor>,
    momentum: f64,
    weight_decay: f64,
}

impl Momentum {
    pub(crate) fn new(vs: &nn::VarStore, momentum: f64, weight_decay: f64) -> Self {
        let mut variables: Vec<_> = vs.variables().into_iter().collect();
        variables.sort_by(|(a, _), (b, _)| a.cmp(b));
        let (parameters, buffers): (Vec<_>, Vec<_>) =
            variables.into_iter().partition(|(_, variable)| variable.requires_grad());
        let velocities = parameters.iter().map(|(_, parameter)| parameter.zeros_like().detach()).collect();
        let buffers = buffers.into_iter().map(|(_, buffer)| buffer).collect();
        Self { parameters, velocities, buffers, momentum, weight_decay }
    }

    /// Returns the gradients of the parameters, in order.
    pub(crate) fn gradients(&self, loss: &Tensor) -> Result<Vec<Tensor>, BoxError> {
        let parameters: Vec<&Tensor> = self.parameters.iter().map(|(_, parameter)| parameter).collect();
        Ok(Tensor::f_run_backward(&[loss], &parameters, false, false)?)
    }

    /// Moves the parameters.
    pub(crate) fn step(&mut self, gradients: &[Tensor], rate: f64) -> Result<(), BoxError> {
        no_grad(|| {
            for (((_, parameter), velocity), gradient) in
                self.parameters.iter_mut().zip(&mut self.velocities).zip(gradients)
            {
                let gradient = gradient + &*parameter * self.weight_decay;
                velocity.f_copy_(&(&*velocity * self.momentum + gradient))?;
                let moved = &*parameter - &*velocity * rate;
                parameter.f_copy_(&moved)?;
            }
            Ok(())
        })
    }

    /// Returns what the net keeps besides its parameters, such as the running means of batch normalisation.
    pub(crate) fn buffers(&self) -> Vec<Tensor> {
        self.buffers.iter().map(Tensor::shallow_clone).collect()
    }

    /// Returns the sum of the squares of all parameters: a number that tells two nets apart.
    pub(crate) fn sum_of_squares(&self) -> f64 {
        let squares = self.parameters.iter().map(|(_, parameter)| parameter.to_kind(Kind::Double).square());
        squares.map(|squares| squares.sum(Kind::Double).double_value(&[])).sum()
    }

    /// Returns the velocities by the names of their parameters.
    pub(crate) fn named(&self) -> Vec<(&str, &Tensor)> {
        self.parameters.iter().map(|(name, _)| name.as_str()).zip(&self.velocities).collect()
    }

    /// Sets the velocities to those that were saved.
    pub(crate) fn set(&mut self, saved: Vec<(String, Tensor)>) -> Result<(), BoxError> {
        let mut saved: std::collections::BTreeMap<_, _> = saved.into_iter().collect();
        for ((name, _), velocity) in self.parameters.iter().zip(&mut self.velocities) {
            let found = saved.remove(name).ok_or_else(|| format!("the checkpoint has no velocity of {name}"))?;
            velocity.f_copy_(&found)?;
        }
        Ok(())
    }
}
