import './base.css';
import './gpus.css';
import './clusters.css';
import './buttons.css';
import './dialogs.css';
import './dashboard.css';
