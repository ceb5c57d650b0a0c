import './base.css';
import './toolbar.css';
