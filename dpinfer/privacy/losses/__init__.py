"""Privacy losses of mechanisms, alone and composed: exact (ε, δ) and trade-off curves."""

from dpinfer.privacy.losses.privacy_loss import PrivacyLoss, privacy_loss

__all__ = ["PrivacyLoss", "privacy_loss"]
