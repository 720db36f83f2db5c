from .privacy_loss import PrivacyLoss as PrivacyLoss
from .privacy_loss import privacy_loss as privacy_loss
