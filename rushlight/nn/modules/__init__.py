"""The layers in the modules where PyTorch has them."""

from rushlight.nn.modules.activation import *
from rushlight.nn.modules.adaptive import *
from rushlight.nn.modules.batchnorm import *
from rushlight.nn.modules.channelshuffle import *
from rushlight.nn.modules.container import *
from rushlight.nn.modules.conv import *
from rushlight.nn.modules.distance import *
from rushlight.nn.modules.dropout import *
from rushlight.nn.modules.flatten import *
from rushlight.nn.modules.fold import *
from rushlight.nn.modules.instancenorm import *
from rushlight.nn.modules.lazy import *
from rushlight.nn.modules.linear import *
from rushlight.nn.modules.linear_cross_entropy_options import *
from rushlight.nn.modules.loss import *
from rushlight.nn.modules.module import *
from rushlight.nn.modules.normalization import *
from rushlight.nn.modules.padding import *
from rushlight.nn.modules.pixelshuffle import *
from rushlight.nn.modules.pooling import *
from rushlight.nn.modules.rnn import *
from rushlight.nn.modules.sparse import *
from rushlight.nn.modules.transformer import *
from rushlight.nn.modules.upsampling import *
from rushlight.nn.modules.utils import *
